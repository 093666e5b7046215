"""Lines of text between the referee of a pair and a launch, over a socket.

To a launch: ``turn N`` (thaw, and let each rank do so many iterations), ``thaw``, ``freeze``. From
it: when it is frozen, ``frozen`` with the sizes of its logs as JSON, or ``moving`` with what does
not stand still; and what ranks report, each with its number: ``built``, ``ready SECONDS`` (of a
step), ``done`` after a turn, ``left``. Standard library only: it is sent to far ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

TURN: Final = "turn"
THAW: Final = "thaw"
FREEZE: Final = "freeze"
FROZEN: Final = "frozen"
MOVING: Final = "moving"
#: What a user is told of a ``ValueError`` of ``parse``.
REFUSED: Final = (
    "its turns cannot go on: {}; pytest-dlperf must be of the same version wherever its ranks "
    "run, and nothing else may write to its files"
)
_REPORT: Final = re.compile(r"([0-9]{1,9}) (?:(built|done|left)|(ready) ([0-9][0-9.e+-]*))")


class Turns(NamedTuple):
    """What a launch needs to get its turns."""

    #: Descriptor of the socket to the referee.
    referee: int
    #: Ranks that report.
    ranks: int


class Standing(NamedTuple):
    """A launch, or a part of it, has been frozen."""

    #: Bytes of each log, by the path below the run's folder.
    sizes: Mapping[str, int]
    #: What does not stand still; empty for nothing.
    moving: str


class Report(NamedTuple):
    """What a rank has reported."""

    rank: int
    word: str
    #: Of ``ready``.
    step_s: float


def parse(line: str, ranks: int) -> Standing | Report:
    """Return what a line from a launch of so many ranks says.

    Raises ``ValueError`` for what none sends.
    """
    word, _, value = line.partition(" ")
    if word == MOVING:
        return Standing({}, value)
    if word == FROZEN:
        try:
            sizes = json.loads(value)
        except RecursionError:
            sizes = None
        if not isinstance(sizes, dict) or not all(type(size) is int for size in sizes.values()):
            raise ValueError(f"{line[:80]!r} has no sizes of logs")
        return Standing(sizes, "")
    match = _REPORT.fullmatch(line)
    if match is None or int(match[1]) >= ranks:
        raise ValueError(f"{line[:80]!r} is not a report of one of {ranks} ranks")
    return Report(int(match[1]), match[2] or match[3], float(match[4] or 0))


class Lines:
    """Lines over the descriptor of a socket, which this object owns."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._text = b""
        #: Whether the other end is gone.
        self.is_over = False

    def fileno(self) -> int:
        """Return the descriptor, for ``select``."""
        return self._descriptor

    def send(self, line: str) -> None:
        """Send a line; nothing where the other end is gone, which ``take`` shows."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            os.write(self._descriptor, f"{line}\n".encode())

    def take(self) -> list[str]:
        """Return the lines that have come; waits for the first byte."""
        try:
            data = os.read(self._descriptor, 65536)
        except ConnectionResetError:
            data = b""
        self.is_over = not data
        *lines, self._text = (self._text + data).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def close(self) -> None:
        """Close this end."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
