"""One end of the socket between the referee of a pair and a launch: lines of text both ways.

Standard library only: it is sent to far ends.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple


class Turns(NamedTuple):
    """What a launch needs to get its turns."""

    #: Descriptor of the socket to the referee.
    referee: int
    #: Ranks that report.
    ranks: int


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
        return [line.decode() for line in lines]

    def close(self) -> None:
        """Close this end."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1
