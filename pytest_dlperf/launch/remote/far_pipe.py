"""What the far end of a channel hears: messages, and that somebody is there.

Standard library only.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any, Final

#: Silence on the pipe after which nobody waits for this end any more: a cut link closes nothing.
SILENCE_S: Final = 20.0
_CHUNK: Final = 1 << 16
_WAIT_S: Final = 0.2


class Pipe:
    """Standard input as messages: a line of JSON each; an empty one: somebody is there."""

    def __init__(self) -> None:
        self._buffer = b""
        self._heard_s = time.monotonic()
        self.gone = ""

    def look(self, timeout_s: float, *others: int) -> list[Any]:
        """Wait for input, or for ``others``; return the messages that are there."""
        readable, _, _ = select.select([0, *others], [], [], timeout_s)
        if 0 in readable:
            data = os.read(0, _CHUNK)
            if not data:
                self.gone = "pytest-gone"
            self._heard_s = time.monotonic()
            self._buffer += data
        elif time.monotonic() - self._heard_s > SILENCE_S:
            self.gone = "nothing-heard"
        *lines, self._buffer = self._buffer.split(b"\n")
        return [json.loads(line) for line in lines if line.strip()]

    def wait(self) -> Any:
        """Return the next message; None if nobody is there any more."""
        while not self.gone:
            messages = self.look(_WAIT_S)
            if messages:
                return messages[0]
        return None
