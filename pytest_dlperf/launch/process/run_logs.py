"""Logs of a launch in bounded space: only head and tail of a log that is too long are kept.

Standard library only, and nothing of this package: the supervisor is run by its path.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from pathlib import Path
from typing import Final

#: Limit of ``output.log``; the logs of single ranks together have the same limit again.
LOG_BYTES: Final = 64 * 2**20
#: Size of all ranks' logs at which the launch is ended: their launcher owns these files and reads
#: them while they grow, so they cannot be shortened before it ends.
RANK_LOGS_BYTES: Final = 2**30
_CHUNK: Final = 2**16


class CappedLog:
    """A log that is filled from a pipe, and never takes more than ``limit`` bytes of the disk.

    The second half of the file is a ring while the log grows; it is put in order at the end.
    """

    def __init__(self, path: Path, pipe: int, *, limit: int = LOG_BYTES) -> None:
        #: Descriptors to wait for; empty once every writer is gone.
        self.descriptors = [pipe]
        #: Why the log could not be written; empty if it could.
        self.error = ""
        self._pipe = pipe
        self._half = limit // 2
        self._total = 0
        self._file = path.open("w+b", buffering=0)
        os.set_blocking(pipe, False)

    def __enter__(self) -> CappedLog:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError), self._file:
            if self._total > 2 * self._half:
                self._put_in_order()
        os.close(self._pipe)

    @property
    def size(self) -> int:
        """Bytes that were written so far."""
        return self._total

    def take(self) -> bool:
        """Take what waits in the pipe, up to 64 KiB; return whether there was any."""
        try:
            data = os.read(self._pipe, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.descriptors = []
            return False
        self._write(data)
        return True

    def drain(self) -> None:
        """Take what waits in the pipe, and no more than it can hold: others may go on writing."""
        for _ in range(16):
            if not self.take():
                return

    def _write(self, data: bytes) -> None:
        while data:
            place = self._total
            if self._total >= self._half:
                place = self._half + (self._total - self._half) % self._half
            room = self._half - place % self._half
            try:
                written = os.pwrite(self._file.fileno(), data[:room], place)
            except OSError as error:
                # The launch goes on, and must not block on a full pipe.
                self.error = error.strerror or str(error)
                return
            self._total += written
            data = data[written:]

    def _put_in_order(self) -> None:
        self._file.seek(self._half)
        ring = self._file.read(self._half)
        begin = (self._total - self._half) % self._half
        _join(self._file, self._half, ring[begin:] + ring[:begin], self._total)


class RankLogs:
    """The files that launchers write for single ranks."""

    def __init__(self, workdir: Path, pattern: str, private: Path | None) -> None:
        self._workdir, self._pattern, self._private = workdir, pattern, private

    def too_long(self, limit: int = RANK_LOGS_BYTES) -> str:
        """Return the size of the ranks' logs for people if it is over ``limit``; else nothing."""
        sizes = {path: size for path in self._paths() if (size := _size(path))}
        if sum(sizes.values()) <= limit:
            return ""
        longest = max(sizes, key=lambda path: sizes[path])
        return f"{sum(sizes.values()) / 2**20:.0f} MiB, most of it in {longest}"

    def sizes(self) -> dict[str, int]:
        """Return the size of each rank's log, by its path below the run's folder in the end."""
        kept = {str(path.relative_to(self._workdir)): _size(path) for path in self._kept()}
        return {**kept, **{path.name: _size(path) for path in self._private_logs()}}

    def cap(self) -> None:
        """Shorten the logs that stay in the run's folder to their limit."""
        cap_files(self._kept())

    def _kept(self) -> list[Path]:
        return list(self._workdir.glob(self._pattern)) if self._pattern else []

    def _paths(self) -> list[Path]:
        return [*self._kept(), *self._private_logs()]

    def _private_logs(self) -> list[Path]:
        return list(self._private.glob("workerlog.*")) if self._private else []


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # its launcher has removed it


def head_bytes(logs: int) -> int:
    """Return the bytes that stay where they were, of each of so many logs of ranks."""
    return LOG_BYTES // (2 * max(1, logs))


def cap_files(paths: list[Path]) -> None:
    """Keep head and tail of each of the logs ``paths`` that is longer than its share."""
    half = head_bytes(len(paths))
    for path in paths:
        if path.is_file() and (size := _size(path)) > 2 * half:
            with path.open("r+b") as file:
                file.seek(size - half)
                _join(file, half, file.read(), size)


def _join(file: io.FileIO | io.BufferedRandom, head: int, tail: bytes, total: int) -> None:
    """Leave of a log of ``total`` bytes the first ``head``, and ``tail``; whole lines of both."""
    searched = max(0, head - _CHUNK)
    file.seek(searched)
    end_of_line = file.read(head - searched).rfind(b"\n") + 1
    if end_of_line:
        head = searched + end_of_line
    tail = tail[tail.find(b"\n", 0, _CHUNK) + 1 :]
    line = f"--- dlperf: {total - head - len(tail)} bytes are left out here ---\n"
    if not end_of_line:
        line = f"\n{line}"
    file.seek(head)
    file.write(line.encode())
    file.write(tail)
    file.truncate()


def absorb_logs(folder: Path, log: Path) -> None:
    """Append every ``workerlog.*`` of ``folder`` to ``log``, and move it there; remove the folder.

    For launchers whose log folder holds the whole environment, passwords included, next to the
    output of the ranks (``paddle.distributed.launch``). The rank that stopped printing first comes
    last, where readers look: the failure mostly began there.
    """
    ranks = [path for path in folder.glob("workerlog.*") if path.is_file()]
    times = {path: path.stat().st_mtime for path in ranks}
    cap_files(ranks)
    try:
        with log.open("ab") as target:
            for path in sorted(ranks, key=lambda path: -times[path]):
                target.write(os.fsencode(f"\n--- {path.name}\n"))
                with path.open("rb") as source:
                    shutil.copyfileobj(source, target)
                path.replace(log.parent / path.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
