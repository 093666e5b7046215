"""The folder of locks and leases, private to one user of this host."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_dlperf.core.errors import CaseError

_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


def folder() -> Path:
    """Return the folder, made with mode 0700 if it is missing.

    ``pytest-dlperf-<uid>`` in ``/tmp``, regardless of ``TMPDIR`` and ``XDG_RUNTIME_DIR``: two
    sessions of one user must find each other's locks, and tools such as tox drop or replace
    those variables. ``DLPERF_RUNTIME_DIR`` names another one. Raises ``CaseError`` if it cannot
    be made, belongs to another user, or others can write it: they could remove its locks, or
    put links in their place, through which a session would write over this user's files.
    """
    named = os.environ.get("DLPERF_RUNTIME_DIR")
    path = Path(named) if named else Path(f"/tmp/pytest-dlperf-{os.getuid()}")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise CaseError(
            f"cannot make the folder for locks, {path}: {error.strerror}; set DLPERF_RUNTIME_DIR "
            "to a folder that you can write"
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise CaseError(
            f"{path} is not a folder of this user; remove it, or set DLPERF_RUNTIME_DIR to your "
            "own"
        )
    if status.st_mode & _OTHERS_WRITE:
        raise CaseError(
            f"others than its owner can write {path} (mode {stat.S_IMODE(status.st_mode):04o}), "
            f"and locks there would protect nothing; `chmod go-w {shlex.quote(str(path))}`, or "
            "set DLPERF_RUNTIME_DIR to a folder of your own, which may be in this one"
        )
    return path


#: A full disk, one that is read only, and one without locks.
_OF_THE_DISK: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.ENOLCK}
)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Raise ``CaseError`` with what to do where the disk of the folder takes no lock ``path``.

    An error while a file is written names no file, and the session's own folder is another one.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _OF_THE_DISK:
            raise
        raise CaseError(
            f"the lock {path} cannot be taken: {error.strerror}; make room there, or set "
            "DLPERF_RUNTIME_DIR to another folder"
        ) from error
