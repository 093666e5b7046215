"""The versions that an issue report needs."""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from typing import Any, Final, TypedDict

from pytest_dlperf.cli.stdout import say

_OURS: Final = "pytest-dlperf"


class Versions(TypedDict):
    """Versions of what measures; None of what is not installed."""

    pytest_dlperf: str | None
    pytest: str | None
    python: str


def installed_versions() -> Versions:
    """Return what is installed beside this interpreter."""
    return {
        "pytest_dlperf": _version_of(_OURS),
        "pytest": _version_of("pytest"),
        "python": platform.python_version(),
    }


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def versions_in_words(versions: Versions) -> str:
    """Return the versions for people."""
    plugin = versions["pytest_dlperf"] or "(not installed)"
    pytest = versions["pytest"] or "(none)"
    return f"{_OURS} {plugin}, pytest {pytest}, Python {versions['python']}"


class ShowVersion(argparse.Action):
    """Prints the version, and ends."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option: Any = None
    ) -> None:
        """Print it on standard output."""
        say(versions_in_words(installed_versions()))
        parser.exit()
