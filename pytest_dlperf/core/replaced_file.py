"""Replace a file whole or not at all, beside writers of other processes, users and hosts.

A temporary's name says where its writer lives, so that nobody removes that of a writer who may
go on: a folder may be in a home that all nodes share, or be mounted into several containers.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import secrets
import socket
import time
from pathlib import Path
from typing import Final

#: Of a name that may be as long as a file's can be.
NAME_LENGTH_MAX: Final = 150
_TEMPORARY: Final = re.compile(r"\..+\.(?P<place>[0-9a-f]{8})-(?P<pid>[0-9]+)-[0-9a-f]{8}\.tmp")
#: No writer takes so long: a temporary of another host is then a dead writer's.
_ABANDONED_S: Final = 24 * 3600.0


def replace_file(path: Path, content: bytes, *, mode: int = 0o666, synced: bool = False) -> None:
    """Replace ``path`` by ``content``, or leave it as it is; raise ``OSError``.

    ``mode`` counts less the umask. ``synced``: the new content outlives a power cut. The folder
    must exist. Temporaries of writers that died in it are removed.
    """
    remove_leftovers(path.parent)
    writer = f"{_place()}-{os.getpid()}-{secrets.token_hex(4)}"
    temporary = path.with_name(f".{path.name[:NAME_LENGTH_MAX]}.{writer}.tmp")
    try:
        # Not mkstemp, which would give 0600 regardless of the umask
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(descriptor, "wb") as file:
            file.write(content)
            if synced:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if synced:
        sync_folder(path.parent)


def remove_leftovers(folder: Path) -> None:
    """Remove the temporaries in ``folder`` whose writers have died; raise ``OSError``."""
    for path in folder.iterdir():
        match = _TEMPORARY.fullmatch(path.name)
        if match is not None and _is_abandoned(path, match["place"], int(match["pid"])):
            # Another writer's of this folder, which may just remove it too
            with contextlib.suppress(FileNotFoundError, PermissionError):
                path.unlink()


def sync_folder(folder: Path) -> None:
    """Make what was renamed in ``folder`` outlive a power cut, where the file system can."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # The file is in place by now: a file system that cannot sync folders is no failure
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_abandoned(path: Path, place: str, pid: int) -> bool:
    if place != _place():
        try:
            return time.time() - path.lstat().st_mtime > _ABANDONED_S
        except OSError:
            return False  # it is in place, or removed, meanwhile
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # another user's, who lives
    return False


@functools.cache
def _place() -> str:
    """Return where numbers of processes mean the same: in one boot, and one namespace of them."""
    return hashlib.sha256("\0".join(_identities()).encode()).hexdigest()[:8]


def _identities() -> list[str]:
    identities = [socket.gethostname()]
    for read in (_boot_id, _pid_namespace):
        with contextlib.suppress(OSError):  # not Linux
            identities.append(read())
    return identities


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _pid_namespace() -> str:
    return os.readlink("/proc/self/ns/pid")
