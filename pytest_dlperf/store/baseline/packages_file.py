"""``<machine class>/packages.json``: lists of installed packages, by the digest in sessions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.errors import BaselineError
from pytest_dlperf.core.packages import packages_digest
from pytest_dlperf.store.baseline.replace_file import locked, replace_file

NAME: Final = "packages.json"
#: Version of the file. 1: the first.
FILE_FORMAT: Final = 1
#: Lists that are kept, those used last.
_KEPT: Final = 20


def read(root: Path, machine_class: str) -> dict[str, dict[str, str]]:
    """Return the stored lists by their digests, the one that was used last at the end.

    Raises ``BaselineError`` for a file that is not what it claims to be.
    """
    path = root / machine_class / NAME
    try:
        return _lists(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BaselineError(f"cannot be read ({error.strerror})", subject=str(path)) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BaselineError(
            f"not lists of packages ({error})",
            subject=str(path),
            remedy="remove it: --update-baselines writes it again",
        ) from error


def keep(root: Path, machine_class: str, packages: Mapping[str, str]) -> None:
    """Store a list as the one that was used last, one writer at a time."""
    path = root / machine_class / NAME
    with locked(path):
        stored = read(root, machine_class)
        digest = packages_digest(packages)
        lists = {key: stored[key] for key in stored if key != digest} | {digest: dict(packages)}
        if list(stored) == list(lists):
            return
        kept = [{"digest": key, "packages": lists[key]} for key in lists][-_KEPT:]
        text = json.dumps({"format": FILE_FORMAT, "lists": kept}, indent=1, sort_keys=True)
        replace_file(path, f"{text}\n".encode())


def _lists(values: Any) -> dict[str, dict[str, str]]:
    if values["format"] != FILE_FORMAT:
        raise ValueError(f"format {values['format']!r}, this version reads {FILE_FORMAT}")
    lists: dict[str, dict[str, str]] = {}
    for entry in values["lists"]:
        packages = entry["packages"]
        if packages_digest(packages) != entry["digest"]:
            raise ValueError(f"digest {entry['digest']!r} is not that of its list")
        lists[entry["digest"]] = packages
    return lists
