"""A block of a log, and the kinds of its lines: words are looked for in one line of each kind."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache, cached_property
from typing import Any, Final

from pytest_dlperf.measure.logs.digits import Lines, Text, skeleton_of

#: Lines of more kinds than this are of none: each is another one.
MOST_KINDS: Final = 512
#: Lines whose numbers are at the same places are of one kind if there are so many of each.
_LINES_OF_SHAPE: Final = 200


class Block(bytes):
    """Plain text, whole lines. Each line with other words costs, and not each line."""

    def __new__(cls, text: bytes) -> Block:
        """Return the block of a text; one that is a block already is returned as it is."""
        return text if isinstance(text, Block) else super().__new__(cls, text)

    @cached_property
    def lines(self) -> Text:
        """Its lines."""
        return Text(bytes(self) if self.endswith(b"\n") else self + b"\n")

    @cached_property
    def kinds(self) -> Mapping[bytes, Lines]:
        """Its lines by skeleton; empty if they have too many."""
        lines = self.lines
        by_shape = lines.lines_by_shape(len(lines) / _LINES_OF_SHAPE + 1)
        if by_shape is not None:
            return by_shape
        return lines.lines_by_skeleton(MOST_KINDS) or {}

    def kinds_with(self, anchors: Collection[bytes]) -> dict[bytes, Lines]:
        """Return the kinds whose lines have one of the anchors, be it with other digits."""
        anchors = [anchor for anchor in map(_skeleton, anchors) if anchor in self._words]
        return {
            kind: lines
            for kind, lines in self.kinds.items()
            if any(anchor in kind + b"\n" for anchor in anchors)
        }

    def __contains__(self, word: Any) -> bool:
        """Return whether it has a word."""
        if self.kinds and b"\n" not in word and _skeleton(word) not in self._words:
            return False
        return super().__contains__(word)

    @cached_property
    def _words(self) -> bytes:
        return b"\n".join(self.kinds) + b"\n"


_skeleton = cache(skeleton_of)
