"""Where a step of a bisection runs pytest: git runs it at the top of the repository."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pytest_dlperf.cli.history.pytest_root import root_of
from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.launch.arms.git import git, top_of


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
        told = ", ".join(str(path.relative_to(top)) for path in found)
        raise UsageError(
            f"{node_id}: several files of the repository have this id ({told}); give the command "
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
