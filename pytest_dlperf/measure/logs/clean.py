"""Clean a log in constant memory: from its bytes to blocks of plain lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import BinaryIO, Final, NamedTuple

BLOCK_BYTES: Final = 1 << 20
#: No record of any format is longer; what follows on such a line is not looked at.
LINE_BYTES: Final = 8192
_COLOUR: Final = re.compile(
    rb"\x1b\[[0-9;:?]{0,48}[A-Za-z]|\x1b[()][A-Z0-9]|\x1b\][^\x07\n]{0,256}\x07"
)
# mpirun --tag-output writes "[1,3]<stdout>:", horovodrun "[3]<stdout>:"; with --timestamp-output
# a date comes before it. Both break lines of several writers anywhere.
_RANK_TAG: Final = re.compile(
    rb"(?P<date>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?"
    rb"\[(?:\d{1,6},)?(?P<rank>\d{1,6})\]<std(?:out|err)>:? ?"
)
# torchrun --tee writes "[default3]:"
_TORCHRUN_TAG: Final = re.compile(rb"^\[[A-Za-z_]{1,32}(\d{1,6})\]:")
_CONTAINER_STAMP: Final = re.compile(
    rb"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [FP] )?"
)


class Line(NamedTuple):
    """A plain line, and the rank and the time that a launcher or a container put before it."""

    text: bytes
    rank: int | None
    stamp: bytes = b""


def blocks(stream: BinaryIO, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """Yield the stream in blocks that end where a line ends; a line longer than one is cut.

    The last block ends without a line feed where the stream ends within a line.
    """
    rest = b""
    while chunk := stream.read(size):
        block = rest + chunk
        end = max(block.rfind(b"\n"), block.rfind(b"\r"))
        if end < 0 and len(block) < 2 * size:
            rest = block
            continue
        if end < 0:
            rest = b""
            yield plain(block) + b"\n"
        else:
            rest = block[end + 1 :]
            yield plain(block[: end + 1])
    if text := plain(rest):
        yield text


def plain(block: bytes) -> bytes:
    """Return the block without colours and NUL bytes, every line ended by a line feed."""
    if b"\0" in block:
        # First, since UTF-16 has one between any two letters.
        block = block.replace(b"\0", b"")
    if b"\x1b" in block:
        block = _COLOUR.sub(b"", block)
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return block


def lines_with(block: bytes, anchors: tuple[bytes, ...]) -> Iterator[Line]:
    """Yield the lines of a plain block that hold an anchor, without the marks of launchers."""
    for text in whole_lines_with(block, anchors):
        if text.count(b"]<std") < 2:
            yield untagged(text)
        else:
            yield from map(untagged, _records_in(text, anchors))


def _records_in(text: bytes, anchors: tuple[bytes, ...]) -> Iterator[bytes]:
    """Yield the records of a line that several ranks wrote, one where only one has an anchor."""
    cuts = [match.start() for match in _RANK_TAG.finditer(text)]
    begin, seen = 0, any(anchor in text[: cuts[0]] for anchor in anchors) if cuts else False
    for cut, end in pairwise([*cuts, len(text)]):
        has_one = any(anchor in text[cut:end] for anchor in anchors)
        if has_one and seen:
            yield text[begin:cut]
            begin = cut
        seen = seen or has_one
    yield text[begin:]


def whole_lines_with(block: bytes, anchors: tuple[bytes, ...]) -> Iterator[bytes]:
    """Yield the lines of a plain block that hold an anchor; the others cost next to nothing."""
    here = [anchor for anchor in anchors if anchor in block]
    if not here:
        return
    find = _finder(block, here)
    at = find(0)
    while at >= 0:
        start = block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at)
        if end < 0:
            end = len(block)
        yield block[start : min(end, start + LINE_BYTES)]
        at = find(end + 1)


def _finder(block: bytes, anchors: Sequence[bytes]) -> Callable[[int], int]:
    if len(anchors) == 1:
        return partial(block.find, anchors[0])
    search = re.compile(b"|".join(re.escape(anchor) for anchor in anchors)).search

    def find(start: int) -> int:
        match = search(block, start)
        return match.start() if match else -1

    return find


def untagged(text: bytes) -> Line:
    """Take the marks of launchers and containers off a line."""
    rank = None
    stamp = b""
    if container := _CONTAINER_STAMP.match(text):
        stamp = container[0]
        text = text[container.end() :]
    if b"]<std" in text:
        tag = _RANK_TAG.search(text)
        if tag is not None:
            rank = int(tag["rank"])
            stamp = stamp or tag["date"] or b""
            text = _RANK_TAG.sub(b"", text)
    elif tag := _TORCHRUN_TAG.match(text):
        rank = int(tag[1])
        text = text[tag.end() :]
    return Line(text, rank, stamp)


#: What launchers and containers put before each line, with numbers that may differ: a container's
#: stamp, ``srun --label``, ``kubectl logs --prefix``, Docker Compose, and ranks.
_LINE_TAG: Final = re.compile(
    _CONTAINER_STAMP.pattern
    + rb"|^(?:(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?"
    rb"\[(?:\d{1,6},)?\d{1,6}\]<std(?:out|err)>:? ?"
    rb"|\[(?:default|rank)\d{1,6}\]: ?|\[pod/[^\]\n]{1,200}\] |\d{1,6}: |[\w.-]{1,64} {1,8}\| )"
)


def without_line_tags(block: bytes) -> bytes:
    """Return a block without what comes before each of its lines, as it does before the first."""
    for _ in range(2):  # a container's stamp, and a launcher's tag behind it
        tag = _LINE_TAG.match(block)
        if tag is None:
            break
        words = tag[0].rstrip(b" ")
        alike = re.sub(rb"\d+", rb"\\d+", re.escape(words))
        # Editors take the blank off an empty line.
        blank = b" ?" if words != tag[0] else b""
        block = re.sub(rb"^" + alike + blank, b"", block, flags=re.MULTILINE)
    return block
