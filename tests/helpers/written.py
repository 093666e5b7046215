"""What a session that runs has written so far."""

from __future__ import annotations

from pathlib import Path


def written(folder: Path, pattern: str) -> list[Path]:
    """Return what fits ``pattern``; folders may come and go meanwhile.

    ``glob`` of Python 3.12 and before raises where one goes between its listing and its reading.
    """
    while True:
        try:
            return list(folder.glob(pattern))
        except FileNotFoundError:
            continue
