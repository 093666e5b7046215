"""The turns of one node's part of a launch: its ranks' FIFOs, and the freezer between turns.

``lines.py`` has what the referee and a node tell each other; what ranks report is passed on
unchanged. Standard library only: it is sent to far ends.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pytest_dlperf.core.wire import TURN_REPORTS, rank_file
from pytest_dlperf.launch.turns.cgroup import Cgroup
from pytest_dlperf.launch.turns.freezer import Freezer
from pytest_dlperf.launch.turns.lines import FREEZE, FROZEN, MOVING, TURN, Lines


class NodeTurns:
    """Carries out what the referee says to the ranks of one node.

    Nodes that share files make the same FIFOs, and each has a pipe of its own behind them, unless
    one kernel has them all: so a rank gets its turns from the node that it has reported to first.
    Raises ``OSError`` where a FIFO cannot be made in ``folder``, that of the records.
    """

    def __init__(self, folder: Path, ranks: int, run: str) -> None:
        self._paths = [folder / rank_file(rank, "turn") for rank in range(ranks)]
        if ranks:
            self._paths.append(folder / TURN_REPORTS)
        self._descriptors: list[int] = []
        #: Descriptors of the ranks that are on this node.
        self._here: set[int] = set()
        self._text = b""
        with contextlib.ExitStack() as stack:
            stack.callback(self._close_fifos)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in self._paths:
                self._descriptors.append(_open(path))
            cgroup = Cgroup.make()
            if cgroup is not None:
                stack.callback(cgroup.remove)
            self._freezer = Freezer(run, cgroup)
            stack.pop_all()
        self._is_over = False

    def join(self) -> None:
        """Have this process, which is to become the launcher, and its children frozen at once."""
        self._freezer.join()

    def started(self, launcher_pid: int) -> None:
        """Have each freeze reap the ended orphans of the run, but not its launcher."""
        self._freezer.started(launcher_pid)

    @property
    def reports(self) -> list[int]:
        """The descriptor that has what ranks report; none where no rank reports."""
        return self._descriptors[-1:]

    def go_on(
        self,
        lines: Iterable[str],
        send: Callable[[str], None],
        sizes: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        """Send what ranks have reported; do what ``lines`` of the referee say, and answer them.

        ``sizes`` returns the bytes of each log, once the run is frozen.
        """
        for report in self._take_reports():
            send(report)
        for line in lines:
            if answer := self._obey(line, sizes):
                send(answer)

    def _take_reports(self) -> list[str]:
        if not self.reports:
            return []
        try:
            self._text += os.read(self.reports[0], 65536)
        except BlockingIOError:
            return []
        *lines, self._text = self._text.split(b"\n")
        reports = [line.decode(errors="replace") for line in lines]
        for rank, descriptor in enumerate(self._descriptors[:-1]):
            if f"{rank} built" in reports:
                self._here.add(descriptor)
        return reports

    def _obey(self, line: str, sizes: Callable[[], Mapping[str, int]]) -> str:
        word, _, value = line.partition(" ")
        if word == FREEZE:
            moving = self._freezer.freeze()
            return f"{MOVING} {moving}" if moving else f"{FROZEN} {json.dumps(sizes())}"
        self._freezer.thaw()
        if word == TURN:
            for descriptor in self._here:
                os.write(descriptor, f"{int(value)}\n".encode())
        return ""

    def close(self) -> None:
        """Let all go on, and remove the FIFOs: nobody gives turns any more."""
        if not self._is_over:
            self._is_over = True
            self._freezer.close()
            self._close_fifos()

    def remove(self) -> None:
        """Remove what is left, once the run has ended, or was not started."""
        self.close()
        self._freezer.remove()

    def _close_fifos(self) -> None:
        # What is in the way of a FIFO stays
        for descriptor, path in zip(self._descriptors, self._paths, strict=False):
            os.close(descriptor)
            path.unlink(missing_ok=True)
        self._descriptors, self._here = [], set()


class GivenTurns:
    """Turns of a node that its referee gives over a socket."""

    def __init__(self, referee: Lines, node: NodeTurns) -> None:
        self._referee, self._node = referee, node

    def join(self) -> None:
        """Have this process, which is to become the launcher, and its children frozen at once."""
        self._node.join()

    def started(self, launcher_pid: int) -> None:
        """Have each freeze reap the ended orphans of the run, but not its launcher."""
        self._node.started(launcher_pid)

    @property
    def descriptors(self) -> list[int]:
        """Descriptors to wait for."""
        return [*self._node.reports, *([] if self._referee.is_over else [self._referee.fileno()])]

    def go_on(self, readable: Sequence[int], sizes: Callable[[], Mapping[str, int]]) -> None:
        """Take what has come, and send the answers; ``sizes`` as ``NodeTurns.go_on`` says."""
        lines = self._referee.take() if self._referee.fileno() in readable else []
        self._node.go_on(lines, self._referee.send, sizes)

    def close(self) -> None:
        """Let all go on; nobody gives turns any more."""
        self._node.close()
        self._referee.close()


def _open(path: Path) -> int:
    try:
        os.mkfifo(path, 0o600)
    except OSError as error:
        if not path.is_fifo():
            # Of its own accord it does not name the file
            raise OSError(error.errno, error.strerror, str(path)) from error
    # For both ways, so that neither side waits for the other to open it
    return os.open(path, os.O_RDWR | os.O_NONBLOCK)
