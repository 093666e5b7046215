"""Find the test of a node id, and the history that is named, without pytest."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.cli.pytest_root import root_of
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
    files = _files(top, file, here)
    of_this_root = root_of(here, run_in=here).folder / file
    if len(files) > 1 and of_this_root not in files:
        names = ", ".join(str(path.relative_to(top)) for path in files)
        raise UsageError(
            f"{node_id}: several files of the repository have this id ({names}); give the command "
            "in the folder where the sessions ran, with --history"
        )
    path = files[0] if len(files) == 1 else of_this_root
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
