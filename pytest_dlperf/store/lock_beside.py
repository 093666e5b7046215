"""The lock of a file that several processes change: of one user or several, on one host or more.

It is a file beside the other, which is there while somebody holds it: a folder of locks on this
host would exclude neither another host of a shared home, nor another user, nor a container. The
lock is the kernel's (``flock``), so that it ends with its holder. NFS passes it to its server,
for which the file must be open for writing (nfs(5)): the folder's own descriptor would not do.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_dlperf.core import runtime_folder
from pytest_dlperf.core.replaced_file import NAME_LENGTH_MAX

#: A writer holds the lock for milliseconds; one that holds it so long hangs.
TIMEOUT_S: Final = 60.0
#: Between two tries; at random, so that two writers do not go on trying at the same moments.
_POLL_S: Final = (0.002, 0.02)
#: Said by file systems without locks: Lustre without its option, NFS without its service, FUSE.
_NO_LOCKS: Final = frozenset(
    {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF}
)
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


class _NoLocksError(OSError):
    """The file system of the folder has no locks."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of ``path``, which need not exist, nor its folder.

    On a file system without locks it is one of this host and user, in the runtime folder. Raises
    ``TimeoutError`` if it cannot be had within a minute, with the lock's path; else ``OSError``.
    """
    until_s = time.monotonic() + TIMEOUT_S
    real = Path(os.path.realpath(path.parent)) / path.name
    beside = real.with_name(f".{real.name[:NAME_LENGTH_MAX]}.lock")
    missing = [folder for folder in beside.parents if not folder.exists()]
    try:
        try:
            lock, descriptor = beside, _taken(beside, until_s)
        except _NoLocksError:
            beside.unlink(missing_ok=True)
            digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:32]
            lock = runtime_folder.folder() / f"written-{digest}.lock"
            with runtime_folder.naming(lock):
                descriptor = _taken(lock, until_s)
        try:
            yield
        finally:
            # By its holder alone: who opened it before finds that it is no longer in place
            with contextlib.suppress(OSError):
                lock.unlink()
            os.close(descriptor)
    finally:
        for folder in missing:
            with contextlib.suppress(OSError):  # something is in it, as there should be
                folder.rmdir()


def _taken(lock: Path, until_s: float) -> int:
    """Return a descriptor that holds the lock."""
    while True:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _opened(lock)
        if descriptor is not None:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_in_place(lock, descriptor):
                    return descriptor
            except BlockingIOError:
                pass
            except OSError as error:
                os.close(descriptor)
                if error.errno in _NO_LOCKS:
                    raise _NoLocksError(error.errno, error.strerror) from error
                raise
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        if time.monotonic() > until_s:
            raise TimeoutError(errno.ETIMEDOUT, "another process holds its lock", str(lock))
        time.sleep(random.uniform(*_POLL_S))


def _opened(lock: Path) -> int | None:
    """Return a descriptor of the lock's file; None where that is to be tried again."""
    try:
        return os.open(lock, os.O_RDWR | _FLAGS)
    except FileNotFoundError:
        pass
    except PermissionError:
        return _opened_to_read(lock)
    try:
        # By itself: to create what another user has in a shared folder is refused by some kernels
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600)
    except (FileExistsError, FileNotFoundError):
        return None  # another writer was faster, or has removed the folder
    with contextlib.suppress(OSError):
        # Who may write the folder may hold its locks
        writers = lock.parent.stat().st_mode & 0o022
        os.fchmod(descriptor, 0o600 | writers | writers << 1)
    return descriptor


def _opened_to_read(lock: Path) -> int | None:
    """Return a descriptor of another user's lock, which suffices on a local file system."""
    try:
        return os.open(lock, os.O_RDONLY | _FLAGS)
    except FileNotFoundError:
        return None
    except PermissionError:
        if os.access(lock.parent, os.W_OK | os.X_OK):
            return None  # its owner is about to open it to others, or holds it
        raise


def _is_in_place(lock: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(lock.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
