"""Let the lines of a log through that hold an anchor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from pytest_dlperf.measure.logs.block import Block
from pytest_dlperf.measure.logs.clean import BLOCK_BYTES

#: A block of which more lines than this share hold an anchor is read as it is.
_DENSE: Final = 0.25


class Sieve:
    """Gathers the lines that hold an anchor to blocks of about the usual size.

    Blocks in which many lines do are let through as they are.
    """

    def __init__(self, anchors: tuple[bytes, ...]) -> None:
        self._anchors = anchors
        self._searches = [(anchor, re.compile(re.escape(anchor)).finditer) for anchor in anchors]
        self._gathered: list[bytes] = []
        self._size = 0

    def blocks(self, stream: Iterable[Block]) -> Iterator[Block]:
        """Yield blocks of whole lines, in the order of the log."""
        for block in stream:
            if self._is_dense(block):
                yield from self._flushed()
                yield block
                continue
            lines = self._lines(block)
            if lines:
                self._gathered.append(lines)
                self._size += len(lines)
            if self._size > BLOCK_BYTES:
                yield from self._flushed()
        yield from self._flushed()

    def _lines(self, block: bytes) -> bytes:
        """Return the lines that hold an anchor."""
        places = [
            match.start()
            for anchor, matches in self._searches
            if anchor in block
            for match in matches(block)
        ]
        if not places:
            return b""
        data = np.frombuffer(block if block.endswith(b"\n") else block + b"\n", dtype=np.uint8)
        ends = np.flatnonzero(data == ord("\n"))
        holds = np.zeros(len(ends), dtype=bool)
        holds[np.searchsorted(ends, places)] = True
        text: bytes = data[np.repeat(holds, np.diff(ends, prepend=-1))].tobytes()
        return text

    def _flushed(self) -> Iterator[Block]:
        if self._gathered:
            yield Block(b"".join(self._gathered))
        self._gathered, self._size = [], 0

    def _is_dense(self, block: Block) -> bool:
        kinds = block.kinds_with(self._anchors)
        return sum(map(len, kinds.values())) > _DENSE * len(block.lines)
