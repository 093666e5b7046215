"""What writers of synthetic logs share."""

from __future__ import annotations

from collections.abc import Callable

BATCH = 16
#: Gets the 0-based iteration and its seconds (one device of one); returns a line.
Writer = Callable[[int, float], str]


def log(writer: Writer, *, iterations: int = 150, seconds: float = 0.5) -> str:
    """Return a log in which every iteration took as long."""
    return "".join(f"{writer(i, seconds)}\n" for i in range(iterations))
