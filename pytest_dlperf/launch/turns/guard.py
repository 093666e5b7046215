"""A child that ends a run when its parent dies: what is frozen would stay so for ever.

Standard library only: it is sent to far ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from typing import Final

from pytest_dlperf.launch.turns.cgroup import Cgroup
from pytest_dlperf.launch.turns.states import is_still

_END: Final = b"end"


class Guard:
    """The child. Where somebody has killed or stopped it, it is started or woken again."""

    def __init__(self, cgroup: Cgroup | None) -> None:
        self._cgroup = cgroup
        self._start()

    def watch(self, processes: Mapping[int, str]) -> None:
        """Have it kill these processes, by pid with the start of each, and all of the cgroup."""
        line = json.dumps(dict(processes)).encode()
        try:
            self._send(line)
        except BrokenPipeError:
            os.close(self._pipe)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self._start()
            self._send(line)

    def close(self) -> None:
        """End it; it kills nothing from now on."""
        with contextlib.suppress(BrokenPipeError):
            self._send(_END)
        os.close(self._pipe)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)

    def _start(self) -> None:
        reading, self._pipe = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _guard(reading, self._cgroup)
            finally:
                os._exit(0)
        os.close(reading)

    def _send(self, line: bytes) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)
        data = line + b"\n"
        while data:
            data = data[os.write(self._pipe, data) :]


def _guard(pipe: int, cgroup: Cgroup | None) -> None:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # The lease, and the pipes of the launch, are not its own; the lock of the cgroup is
    kept = {pipe, *([cgroup.lock] if cgroup is not None else [])}
    for descriptor in set(map(int, os.listdir("/proc/self/fd"))) - kept:
        with contextlib.suppress(OSError):  # that of the listing is closed
            os.close(descriptor)
    line, text = b"{}", b""
    while data := os.read(pipe, 65536):
        *lines, text = (text + data).split(b"\n")
        line = lines[-1] if lines else line
    if line == _END:
        return
    for pid, start in json.loads(line).items():
        if is_still(int(pid), start):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(int(pid), signal.SIGKILL)
    if cgroup is not None:
        cgroup.remove()
