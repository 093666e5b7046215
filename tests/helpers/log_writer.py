"""What writers of synthetic logs share."""

from __future__ import annotations

from collections.abc import Callable

BATCH = 16
#: Gets the 0-based iteration and its seconds (one device of one); returns a line.
Writer = Callable[[int, float], str]


def log(writer: Writer, *, iterations: int = 150, seconds: float = 0.5) -> str:
    """Return a log in which every iteration took as long."""
    return "".join(f"{writer(i, seconds)}\n" for i in range(iterations))


def tqdm_clock(seconds: float) -> str:
    """Return what ``tqdm.format_interval`` does of so many seconds."""
    minutes, whole_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{minutes:02d}:{whole_seconds:02d}"
    return f"{hours}:{clock}" if hours else clock
