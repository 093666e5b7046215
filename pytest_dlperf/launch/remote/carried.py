"""Files that a channel carries where nodes share none: the package there, records back.

Standard library only: the far end of a channel uses it.
"""

from __future__ import annotations

import base64
import io
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

_CHUNK: Final = 1 << 16


def unpack(data: str, folder: Path) -> None:
    """Unpack the base64 archive ``data`` into ``folder``, unless that has the package already."""
    if (folder / "pytest_dlperf").exists():
        return
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    partial.mkdir(mode=0o700, parents=True)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(data))) as archive:
        archive.extractall(partial)
    try:
        partial.rename(folder)
    except OSError:
        shutil.rmtree(partial)  # another was first


def _readable_in(workdir: Path) -> Callable[[tarfile.TarInfo], tarfile.TarInfo | None]:
    return lambda member: member if os.access(workdir / member.name, os.R_OK) else None


def _send_back(workdir: Path, send: Callable[[bytes], None]) -> None:
    """Send the files of the run as one archive."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            with (
                os.fdopen(write, "wb") as stream,
                tarfile.open(fileobj=stream, mode="w|gz") as archive,
            ):
                # A container may have written files that this user cannot read.
                archive.add(workdir, arcname=".", filter=_readable_in(workdir))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        while data := pipe.read(_CHUNK):
            send(data)
    os.waitpid(child, 0)


def give_records(workdir: Path, without: Iterable[str], send: Callable[[bytes], None]) -> None:
    """Send the files of a run, except those named in ``without``, and remove them here."""
    for name in without:
        (workdir / name).unlink(missing_ok=True)
    if workdir.exists():
        _send_back(workdir, send)
        shutil.rmtree(workdir, ignore_errors=True)
