"""Versions of all installed packages: a digest in each outcome, the list once in each file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Name in ``Environment.software`` of the digest.
PACKAGES: Final = "packages"


@dataclass(frozen=True, kw_only=True, slots=True)
class PackageChange:
    """A package whose version is not as it was; None where it was not installed."""

    name: str
    before: str | None
    now: str | None

    def __str__(self) -> str:
        return f"{self.name}: {self.before or 'none'} -> {self.now or 'none'}"


def packages_digest(packages: Mapping[str, str]) -> str:
    """Return 48 bits of the SHA-256 of the list, in hexadecimal, and how many packages it has."""
    text = json.dumps(dict(packages), sort_keys=True, separators=(",", ":"))
    return f"{hashlib.sha256(text.encode()).hexdigest()[:12]} ({len(packages)})"


def package_changes(
    before: Mapping[str, str], now: Mapping[str, str]
) -> tuple[PackageChange, ...]:
    """Return the packages that differ, by name; none where one of the lists is not known."""
    if not before or not now:
        return ()
    return tuple(
        PackageChange(name=name, before=before.get(name), now=now.get(name))
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name)
    )
