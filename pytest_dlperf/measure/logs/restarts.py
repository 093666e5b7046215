"""Whether a log has a second run that goes on from the first: its start is told twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_dlperf.measure.logs.clean import untagged

if TYPE_CHECKING:
    import re


class Restarts:
    """Words of a run's start that come again between two records."""

    def __init__(self) -> None:
        #: The word by which a run starts again, with records before and after; empty: none.
        self.word = ""
        self._words: dict[bytes, re.Pattern[bytes]] = {}
        self._records: tuple[bytes, ...] = ()
        self._rank: int | None = None
        self._has_records = False
        self._again = b""

    def know(self, anchor: bytes, pattern: re.Pattern[bytes], block: bytes, at: int) -> None:
        """Take in a word of the first run's start, at its place in a block."""
        if not self._words:
            self._rank = _rank_at(block, at)
        self._words[anchor] = pattern

    def begin(self, records: tuple[bytes, ...], block: bytes) -> None:
        """Look from the first block with a record on: a line that has one of ``records``."""
        self._records = records
        self.look(block)

    def look(self, block: bytes) -> None:
        """Look at the next block; blocks before ``begin`` are left out."""
        if not self._records or self.word:
            return
        if self._again and self._has_record(block):
            self.word = self._again.decode(errors="replace")
        for anchor, pattern in self._words.items():
            if anchor in block:
                self._look_at(block, pattern)
        self._has_records = self._has_records or self._has_record(block)

    def _look_at(self, block: bytes, pattern: re.Pattern[bytes]) -> None:
        for match in pattern.finditer(block):
            before = self._has_records or self._has_record(block[: match.start()])
            # Other ranks may tell their start later than the first record.
            if before and not self.word and _rank_at(block, match.start()) == self._rank:
                self._again = match[0]
                if self._has_record(block[match.end() :]):
                    self.word = self._again.decode(errors="replace")

    def _has_record(self, text: bytes) -> bool:
        return any(anchor in text for anchor in self._records)


def _rank_at(block: bytes, at: int) -> int | None:
    start, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
    return untagged(block[start : end if end >= 0 else len(block)]).rank
