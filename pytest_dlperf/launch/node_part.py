"""One node's part of a training on several: its place in the command, its word to the others.

Each node is started by hand. What one of them learns the others learn from a folder that all
of them see; where there is none, they learn it from the launcher's own timeouts.
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
    """Return ``argv`` with this node's place for the launcher's placeholders.

    Raises ``UsageError`` about ``what`` if the launcher leaves no place for a node's number.
    """
    if not any(_NODE_RANK in word for word in argv):
        raise UsageError(
            f"{what} starts all nodes from the first one, not the part of a single node; leave "
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
    """What the nodes of one case have in common: records, and why a node stopped."""

    folder: Path
    node_rank: int

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Say to the other nodes that this one is here, and, if it stops, why."""
        self._begin()
        try:
            yield
        except BaseException as error:
            self._stop(str(error) or type(error).__name__)
            raise

    def _begin(self) -> None:
        # What others said before was of another session.
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
        """Remove an earlier session's records: node 0's to do, as no rank starts without it."""
        if self.node_rank == 0:
            for path in self.records(number).glob("rank*"):
                path.unlink(missing_ok=True)

    def _stop(self, reason: str) -> None:
        try:
            self._stopped(self.node_rank).write_text(reason, encoding="utf-8")
        except OSError:
            return  # then they learn it from the launcher's timeout

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
