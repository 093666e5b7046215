"""Footnotes: one number for each text, from 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_dlperf.report.document import Mark

if TYPE_CHECKING:
    from collections.abc import Iterable


class Footnotes:
    """Gives numbers to texts; the same text has the same number wherever it is needed."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str, notes: Iterable[str]) -> Mark:
        """Return ``text`` with the numbers of ``notes``, new ones where they are new."""
        numbers = self._numbers
        found = [numbers.setdefault(note, len(numbers) + 1) for note in notes]
        return Mark(text=text, notes=tuple(dict.fromkeys(found)))

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts, by number."""
        return tuple(self._numbers)
