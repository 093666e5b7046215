"""The part of a multi-node run that this node starts (``--dlperf-node-rank``).

Each node is started by hand. The nodes tell each other through a shared folder that they run, and
why they stopped; without such a folder they only notice by the launcher's timeouts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_dlperf.core.errors import CaseError, UsageError
from pytest_dlperf.core.place import NodePart

_NODE_RANK: Final = "${NODE_RANK}"


def fill_in(argv: tuple[str, ...], part: NodePart, *, what: str) -> tuple[str, ...]:
    """Return ``argv`` with this node's number and the master's address filled in.

    Raises ``UsageError`` about ``what`` if the launcher has no placeholder for a node's number.
    """
    if not any(_NODE_RANK in word for word in argv):
        raise UsageError(
            f"{what} starts all nodes from the first one, never one node alone; leave "
            "--dlperf-node-rank out"
        )
    values = {
        _NODE_RANK: str(part.node_rank),
        "${MASTER_ADDR}": part.master_addr,
        "${MASTER_PORT}": str(part.master_port),
    }
    for name, value in values.items():
        argv = tuple(word.replace(name, value) for word in argv)
    return argv


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedFolder:
    """The folder that the nodes of one case share: records, and why a node stopped."""

    folder: Path
    node_rank: int

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Tell the other nodes that this one runs and, if it stops, why."""
        self._begin()
        try:
            yield
        except BaseException as error:
            self._stop(str(error) or type(error).__name__)
            raise

    def _begin(self) -> None:
        # Its own files may be left from another session.
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._stopped(self.node_rank).unlink(missing_ok=True)
            self._here.touch()
        except OSError as error:
            raise CaseError(f"cannot write to {self.folder}: {error.strerror}") from error

    def records(self, number: int) -> Path:
        """Return the folder of all ranks' records in run ``number``."""
        return self.folder / f"run{number}"

    def clear(self, number: int) -> None:
        """Remove an earlier session's records, on node 0: no rank starts without it."""
        if self.node_rank == 0:
            for path in self.records(number).glob("rank*"):
                path.unlink(missing_ok=True)

    def _stop(self, reason: str) -> None:
        try:
            self._stopped(self.node_rank).write_text(reason, encoding="utf-8")
        except OSError:
            return  # then the others notice by the launcher's timeout

    def check_others(self) -> None:
        """Raise ``CaseError`` if another node has stopped since this one began."""
        for path in sorted(self.folder.glob("stopped.node*")):
            node = path.name.removeprefix("stopped.node")
            if node == str(self.node_rank):
                continue
            if path.stat().st_mtime >= self._here.stat().st_mtime:
                reason = path.read_text(encoding="utf-8").partition("\n")[0]
                raise CaseError(f"node {node} stopped: {reason}")

    @property
    def _here(self) -> Path:
        return self.folder / f"here.node{self.node_rank}"

    def _stopped(self, node_rank: int) -> Path:
        return self.folder / f"stopped.node{node_rank}"
