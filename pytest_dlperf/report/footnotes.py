"""Footnotes: one number for each text, from 1."""

from __future__ import annotations


class Footnotes:
    """Gives numbers to texts; the same text has the same number wherever it is needed."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of ``text``, a new one if it is new."""
        return self._numbers.setdefault(text, len(self._numbers) + 1)

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, by number."""
        return tuple(self._numbers)
