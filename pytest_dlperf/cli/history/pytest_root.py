"""Find pytest's root folder and ini file, and the history that is named, without pytest."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import iniconfig

from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.launch.arms.git import git, top_of

if TYPE_CHECKING:
    from pytest_dlperf.store.history.address import Address


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """How pytest finds a test."""

    #: From the top of the repository; empty for the top itself.
    folder: str
    #: As pytest takes it in that folder.
    node_id: str


def place_of(node_id: str, here: Path) -> Place:
    """Return how a test is found from ``here``, where the sessions ran.

    Node ids are relative to pytest's root folder, which need be neither that one nor git's.
    Raises ``UsageError`` where several tests of the repository have the id.
    """
    file, separator, rest = node_id.partition("::")
    try:
        top = top_of(here)
    except CaseError:
        return Place(folder="", node_id=node_id)  # it is to be typed in another place
    here = here.resolve()
    found = _files(top, file, here)
    mine = root_of(here, run_in=here).folder / file
    if len(found) > 1 and mine not in found:
        names = ", ".join(str(path.relative_to(top)) for path in found)
        raise UsageError(
            f"{node_id}: several files of the repository have this id ({names}); give the command "
            "in the folder where the sessions ran, with --history"
        )
    path = found[0] if len(found) == 1 else mine
    folder = here.relative_to(top).as_posix()
    return Place(
        folder="" if folder == "." else folder,
        node_id=f"{Path(os.path.relpath(path, here)).as_posix()}{separator}{rest}",
    )


def _files(top: Path, file: str, here: Path) -> list[Path]:
    """Return the files of the repository that pytest calls ``file``."""
    done = git(top, "ls-files", "-z", "--", f":(top,glob)**/{_literal(file)}")
    paths = [top / name for name in done.stdout.split("\0")[:-1]] if file else []
    return [path for path in paths if root_of(path.parent, run_in=here).folder / file == path]


def _literal(file: str) -> str:
    return "".join(f"\\{sign}" if sign in "*?[]\\" else sign for sign in file)


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


def root_of(folder: Path, *, run_in: Path) -> PytestRoot:
    """Return the root of tests in ``folder``, where pytest is run in ``run_in``.

    Raises ``UsageError`` for an ini file that cannot be read.
    """
    above = (folder, *folder.parents)
    for one in above:
        for name in _NAMES:
            path = one / name
            if path.is_file() and (values := _configuration(path)) is not None:
                return PytestRoot(folder=one, values=values)
    for name in ("pyproject.toml", "setup.py"):
        for one in above:
            if (one / name).is_file():
                return PytestRoot(folder=one)
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
    found: Mapping[str, Any] = document.get("tool", {}).get("pytest", {})
    options: Mapping[str, Any] | None = found.get("ini_options")
    return options if options is not None else found or None


#: Where pytest sessions leave it, if no other was named.
_DEFAULT: Final = Path(".dlperf/history.sqlite")


def address_in(arguments: argparse.Namespace) -> Address:
    """Return the history that was named, else the usual one; raise ``UsageError``."""
    from pytest_dlperf.store.history.address import parse_address

    here = Path.cwd()
    for text, what in (
        (arguments.history, "--history"),
        (os.environ.get("DLPERF_HISTORY"), "DLPERF_HISTORY"),
    ):
        if text == "off":
            raise UsageError(f"{what}=off names no history; give a file or a URL with --history")
        if text:
            return parse_address(text, folder=here, what=what)
    root = root_of(here, run_in=here)
    text = str(root.values.get("dlperf_history") or "")
    if text == "off":
        raise UsageError("dlperf_history is off in the ini file; name a history with --history")
    if text:
        return parse_address(text, folder=root.folder, what="ini dlperf_history")
    return parse_address(str(_DEFAULT), folder=here, what="--history")
