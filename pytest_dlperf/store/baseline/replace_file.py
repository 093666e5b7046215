"""Replace a file atomically, one writer at a time; a killed writer leaves the old file whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_dlperf.core import runtime_folder
from pytest_dlperf.core.errors import BaselineError, DlperfError

#: A writer holds the lock for milliseconds; one that holds it so long hangs.
_LOCK_TIMEOUT_S: Final = 60.0
_TEMPORARY_END: Final = ".tmp"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of ``path``, which need not exist.

    The lock lies in the user's runtime folder, keyed by the real path: nothing but baselines
    lies among the baselines, and a folder reached through a link has the same lock. Raises
    ``BaselineError`` if the lock cannot be had within a minute.
    """
    # Lazily: a session that writes no baseline need not load it
    from filelock import FileLock, Timeout

    real = Path(os.path.realpath(path.parent)) / path.name
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:32]
    try:
        lock = FileLock(
            runtime_folder.folder() / f"baseline-{digest}.lock", timeout=_LOCK_TIMEOUT_S
        )
        lock.acquire()
    except Timeout as error:
        raise BaselineError(
            f"{path}: another process has held its lock {error.lock_file} for "
            f"{_LOCK_TIMEOUT_S:.0f} s; end that process, and try again"
        ) from error
    except (DlperfError, OSError) as error:
        raise BaselineError(f"{path}: not locked, so not written: {error}") from error
    try:
        yield
    finally:
        lock.release()


def replace_file(path: Path, content: bytes) -> None:
    """Replace ``path`` by ``content``, or leave it whole; call it under ``locked``.

    Raises ``BaselineError`` if the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_TEMPORARY_END}")
    with _writable(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path)
        try:
            _write_through(temporary, content)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def remove_file(path: Path) -> None:
    """Remove ``path`` if it is there; call it under ``locked``. Raises ``BaselineError``."""
    with _writable(path.parent):
        if path.parent.is_dir():
            remove_leftovers(path)
            path.unlink(missing_ok=True)
            _sync_folder(path.parent)


def remove_leftovers(path: Path) -> None:
    """Remove the temporaries of writers of ``path`` that died.

    Who holds the lock of ``path`` is its only living writer, so every temporary is a dead one's.
    """
    for other in path.parent.iterdir():
        if other.name.startswith(f".{path.name}.") and other.name.endswith(_TEMPORARY_END):
            other.unlink(missing_ok=True)


def _write_through(path: Path, content: bytes) -> None:
    # 0o666 less the umask, as for any file that the user makes (mkstemp would give 0600)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` outlive a power cut, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The file is in place by now: a file system that cannot sync folders is no failure
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BaselineError(
            f"{folder}: cannot write baselines there ({error.strerror or error}); make the folder "
            "writable, or name another one"
        ) from error
