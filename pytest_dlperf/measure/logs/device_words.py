"""The number of devices that words of a log say, where a later run says another one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

# A number of nodes may be that of a graph.
_WORDS: Final = re.compile(
    rb"\b(?P<word>world[ _]size|(?:num|n|number of)[ _]?(?:gpus|devices|ranks|processes))"
    rb"['\"]? {0,2}[:=] {0,2}(?P<number>[1-9]\d{0,5})\b(?![.:])"
    rb"|\b(?:launch|train|run+|start)ing (?:on|with) (?P<count>[1-9]\d{0,5}) "
    rb"(?P<noun>gpus|devices|nodes|ranks|processes)\b",
    re.IGNORECASE,
)
#: One of these is in each of them, in small or in capital letters. ``size`` is none, since formats
#: print a batch size in every line.
_ANCHORS: Final = (b"orld", b"ORLD", b"gpus", b"GPUs", b"GPUS", b"devices", b"nodes", b"ranks")
_PROCESSES: Final = b"processes"
#: More words of a block are not looked at.
_MOST: Final = 1000


def matches(block: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the words of a block that say a number of devices."""
    if any(anchor in block for anchor in (*_ANCHORS, _PROCESSES)):
        yield from islice(_WORDS.finditer(block), _MOST)


class DeviceWords:
    """The numbers that were said before a log's first record, by their words."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, set[int]] = {}

    def take(self, said: Iterable[re.Match[bytes]]) -> None:
        """Take in words before the first record: groups of devices may have several numbers."""
        for match in said:
            word, number = _word_and_number(match)
            self._numbers.setdefault(word, set()).add(number)

    def is_other(self, match: re.Match[bytes]) -> bool:
        """Return whether a word after the first record says another number than before it.

        The first one counts where none came before.
        """
        word, number = _word_and_number(match)
        return number not in self._numbers.setdefault(word, {number})


def _word_and_number(match: re.Match[bytes]) -> tuple[bytes, int]:
    word = (match["word"] or match["noun"]).lower().replace(b"_", b" ")
    return word, int(match["number"] or match["count"])
