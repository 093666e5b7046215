"""Print the result of a command, as text or JSON."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Print ``text`` and a line end; what the terminal cannot show is escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")
