"""Find pytest's root folder, and what its ini file says, without pytest."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import iniconfig

from pytest_dlperf.core.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


#: In their order: the first in a folder that configures pytest is taken.
_NAMES: Final = (
    "pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini",
    "setup.cfg",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class PytestRoot:
    """The folder that node ids are relative to, and what its ini file says."""

    folder: Path
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def import_folders(self) -> tuple[str, ...]:
        """The folders of ini ``pythonpath``, which tests import from; absolute."""
        value = self.values.get("pythonpath", ())
        names = shlex.split(value) if isinstance(value, str) else value
        return tuple(str(self.folder / name) for name in names)


def root_of(folder: Path, *, run_in: Path) -> PytestRoot:
    """Return the root of tests in ``folder``, where pytest is run in ``run_in``.

    Raises ``UsageError`` for an ini file that cannot be read.
    """
    above = (folder, *folder.parents)
    for parent in above:
        for name in _NAMES:
            path = parent / name
            if path.is_file() and (values := _configuration(path)) is not None:
                return PytestRoot(folder=parent, values=values)
    for name in ("pyproject.toml", "setup.py"):
        for parent in above:
            if (parent / name).is_file():
                return PytestRoot(folder=parent)
    return PytestRoot(folder=run_in if folder.is_relative_to(run_in) else folder)


def _configuration(path: Path) -> Mapping[str, Any] | None:
    """Return what a file says to pytest; None if it says nothing to it."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".toml":
            return _table(path.name, tomllib.loads(text))
        sections = iniconfig.IniConfig(str(path), text)
    except (OSError, ValueError, iniconfig.ParseError) as error:
        raise UsageError(f"{path}: cannot be read ({error})") from error
    section = "tool:pytest" if path.name == "setup.cfg" else "pytest"
    if section in sections:
        return dict(sections[section].items())
    return {} if path.name.endswith("pytest.ini") else None


def _table(name: str, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if name != "pyproject.toml":
        table: Mapping[str, Any] = document.get("pytest", {})
        return table
    section: Mapping[str, Any] = document.get("tool", {}).get("pytest", {})
    options: Mapping[str, Any] | None = section.get("ini_options")
    return options if options is not None else section or None
