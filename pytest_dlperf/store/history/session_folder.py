"""The folder of one session's logs and records, and the end of those of earlier sessions."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

#: Says that a folder is ours, and, while it is locked, that its session lives.
_MARK: Final = ".dlperf-session"
#: Folders of earlier sessions that are kept.
_KEPT: Final = 9


def make_session_folder(base: Path, name: str) -> tuple[Path, int]:
    """Return ``base/name`` and the descriptor that holds its lock while this process lives.

    All but the newest nine other sessions that have ended are removed; nothing else in
    ``base`` is touched. Raises ``OSError`` if the folder cannot be made.
    """
    make_work_folder(base)
    folder = base / name
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder / _MARK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    # Shared, since all xdist workers of a session hold it.
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    _remove_ended(base, folder)
    return folder, descriptor


def make_work_folder(base: Path) -> None:
    """Make the folder of all sessions, which git ignores; raise ``OSError`` if that fails."""
    try:
        base.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        pass  # it is the user's, or another worker has just made it
    else:
        (base / ".gitignore").write_text("*\n", encoding="utf-8")


def _remove_ended(base: Path, mine: Path) -> None:
    ages: list[tuple[float, Path]] = []
    for mark in base.glob(f"*/{_MARK}"):
        if mark.parent != mine:
            with contextlib.suppress(FileNotFoundError):  # another session removes as well
                ages.append((mark.stat().st_mtime, mark.parent))
    for _, folder in sorted(ages, reverse=True)[_KEPT:]:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder / _MARK, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)
