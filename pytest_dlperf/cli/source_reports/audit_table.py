"""Parse the numbers of a report's Markdown tables, each with the words around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

Kind = Literal["rate", "speedup", "loss"]
_NUMBER: Final = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_RULE_LINE: Final = re.compile(r"[\s|:-]+")
#: How first cells name devices: ``8卡``, ``GPU=8,BS=2``, ``1n8g``, ``8 GPUs``, or a bare number.
_DEVICES: Final = re.compile(
    r"(?:GPU\s*=\s*|^\s*)(\d+)(?:\s*(?:卡|GPUs?|cards?|devices?))?\b", re.IGNORECASE
)
#: A header may name them too, never by a bare number.
_HEADER_DEVICES: Final = re.compile(
    r"(?:\bGPUs?\s*=\s*(\d+)|(?<![\w.])(\d+)\s*[x*]?\s*(?:卡|GPUs?\b|cards?\b|devices?\b))",
    re.IGNORECASE,
)
_LAYOUT: Final = re.compile(r"(?<![A-Za-z0-9])(\d{1,4})n(\d{1,4})[gc](?![A-Za-z0-9])")
_BATCH: Final = re.compile(
    r"(?<![A-Za-z])(?:BS|batch[ _-]?size)\s*=?\s*(\d{1,9})(?![A-Za-z0-9])", re.IGNORECASE
)
_PRECISION: Final = re.compile(
    r"(?<![A-Za-z0-9])(pure_fp16|fp32|tf32|bf16|fp16|amp)(?![A-Za-z0-9])", re.IGNORECASE
)
#: Columns that describe a row, and measure nothing.
_BATCH_KEY: Final = re.compile(
    r"(?:(?:total|global|local|micro|per[ _-]?(?:gpu|device|card))[ _-]*)?"
    r"(?:bs|bsz|batch(?:[ _-]*sizes?)?|batch大小|批大小)"
    r"(?:[ _-]*(?:(?:per|/)[ _-]*(?:gpu|device|card))|\s*[(\uff08].*)?",
    re.IGNORECASE,
)
_MANY: Final = r"(?:(?:#|num(?:ber)?(?:[ _-]*of)?|total)[ _-]*)?"
_COUNT: Final = r"(?:[ _-]*(?:num|number|count))?"
_DEVICES_KEY: Final = re.compile(
    rf"{_MANY}(?:gpus?|devices?|cards?|ranks?|world[ _-]*size){_COUNT}"
    r"|(?:gpu)?卡数?|(?:gpu|设备)数量?",
    re.IGNORECASE,
)
_NODES_KEY: Final = re.compile(
    rf"{_MANY}(?:nodes?|hosts?|machines?){_COUNT}|(?:节点|机器)数量?", re.IGNORECASE
)
_PER_NODE_KEY: Final = re.compile(
    rf"{_MANY}(?:gpus?|devices?|cards?){_COUNT}[ _-]*(?:per|/)[ _-]*(?:node|host|machine)s?"
    r"|(?:单机|每机|每节点)(?:gpu)?卡数",
    re.IGNORECASE,
)
_KEYS: Final = (_BATCH_KEY, _DEVICES_KEY, _NODES_KEY, _PER_NODE_KEY)
_SPEEDUP: Final = re.compile(r"speed-?\s?up|加速", re.IGNORECASE)
_LOSS: Final = re.compile(r"loss|损失", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A number of a table, with the words of its row and column; None where they do not say."""

    #: Tables of the text, lines of the text, and columns of the table, from 0.
    table: int
    line: int
    at: int
    row: str
    column: str
    text: str
    value: float
    kind: Kind
    devices: int | None
    batch_size: int | None
    precision: str | None


def cells_of(markdown: str) -> Iterator[Cell]:
    """Yield the numbers of every Markdown table in a text that measure something.

    Empty cells, words, and the columns of devices, nodes and batch sizes are none.
    """
    header: list[str] = []
    table = -1
    for number, line in enumerate(markdown.splitlines()):
        if "|" not in line:
            header = []
            continue
        words = [word.strip().strip("*`") for word in line.strip().strip("|").split("|")]
        if not header:
            header, table = words, table + 1
            continue
        if _RULE_LINE.fullmatch(line):
            continue
        for cell in _cells_of_row(header, words):
            yield replace(cell, table=table, line=number)


def _cells_of_row(header: Sequence[str], words: Sequence[str]) -> Iterator[Cell]:
    row_devices = _row_devices(header, words)
    row_batch = _key(header, words, _BATCH_KEY) or _number(_BATCH, words[0])
    for at, (column, text) in list(enumerate(zip(header, words, strict=False)))[1:]:
        match = _NUMBER.fullmatch(text)
        if match is None or _is_key(column):
            continue
        value = float(text.replace(",", ""))
        if value <= 0:
            continue
        precision = _PRECISION.search(column) or _PRECISION.search(words[0])
        yield Cell(
            table=0,
            line=0,
            at=at,
            row=words[0],
            column=column,
            text=text,
            value=value,
            kind=_kind(column),
            devices=row_devices or _header_devices(column),
            batch_size=_number(_BATCH, column) or row_batch,
            precision=precision[1].lower() if precision else None,
        )


def _is_key(column: str) -> bool:
    return any(key.fullmatch(column) for key in _KEYS)


def _kind(column: str) -> Kind:
    if _LOSS.search(column):
        return "loss"
    return "speedup" if _SPEEDUP.search(column) else "rate"


def _key(header: Sequence[str], words: Sequence[str], key: re.Pattern[str]) -> int | None:
    """Return the number in the first column whose header says that it is such a key."""
    for column, word in zip(header, words, strict=False):
        if key.fullmatch(column) and word.isdecimal():
            return int(word)
    return None


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(match[1]) if match else None


def _row_devices(header: Sequence[str], words: Sequence[str]) -> int | None:
    if (named := _key(header, words, _DEVICES_KEY)) is not None:
        return named
    if (each := _key(header, words, _PER_NODE_KEY)) is not None:
        nodes = _key(header, words, _NODES_KEY)
        return None if nodes is None else nodes * each
    if _NODES_KEY.fullmatch(header[0]):
        return None
    if layout := _LAYOUT.search(words[0]):
        return int(layout[1]) * int(layout[2])
    return _number(_DEVICES, words[0])


def _header_devices(column: str) -> int | None:
    if layout := _LAYOUT.search(column):
        return int(layout[1]) * int(layout[2])
    match = _HEADER_DEVICES.search(column)
    return int(match[1] or match[2]) if match else None
