"""The batch size among a log's own words: that of training, where evaluation has one as well."""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

_TABLE: Final = (
    (b"sampler.batch_size=", re.compile(rb"Train\.sampler\.batch_size=([1-9]\d{0,8})\b")),
    (b"samples_per_gpu=", re.compile(rb"\bsamples_per_gpu=([1-9]\d{0,8})\b")),
    (b"Per-GPU Batch Size", re.compile(rb"Per-GPU Batch Size ([1-9]\d{0,8})\b")),
    (b"batch_size_per_gpu", re.compile(rb"\bbatch_size_per_gpu : ([1-9]\d{0,8})\b")),
    (b"max_tokens=", re.compile(rb"\bmax_tokens=([1-9]\d{0,8})\b")),
    (b"+ batch_size=", re.compile(rb"^\+ batch_size=([1-9]\d{0,8})\b", re.MULTILINE)),
    (b"Namespace(", re.compile(rb"[( ]batch_size=([1-9]\d{0,8})\b")),
    # Of the lines within, the one that is indented no further.
    (
        b"train_dataloader = dict(",
        re.compile(
            rb"train_dataloader = dict\((?:\s{0,9}|(?:\n {4}[^\n]{0,400}){0,40}?\n {4})"
            rb"batch_size=([1-9]\d{0,8})\b"
        ),
    ),
    (b"'batch_size'", re.compile(rb"'batch_size': ([1-9]\d{0,8}),")),
)
_SETTING: Final = re.compile(rb"\bbatch_size ?: ([1-9]\d{0,8})\b")
#: What stands before a line of a dump, and what it names.
_HEAD: Final = re.compile(rb"^[^\n]{0,80}?(?:INFO|DEBUG)\]?: ?")
_KEY: Final = re.compile(rb"(\s{0,80})([A-Za-z_]\w{0,60}) ?:")
_TRAINS: Final = re.compile(rb"train", re.IGNORECASE)
_OTHER: Final = re.compile(rb"eval|val|test|infer|predict", re.IGNORECASE)
#: So many settings of the name are looked at, and so many lines above each.
_MOST: Final = 32
_LINES: Final = 400


def batch_size(block: bytes) -> int | None:
    """Return the first batch size that a block says, of training; None where it says none."""
    for anchor, pattern in _TABLE:
        if anchor in block and (match := pattern.search(block)):
            return int(match[1])
    return _of_settings(block) if b"batch_size" in block else None


def _of_settings(block: bytes) -> int | None:
    """Return that of a dump of settings, by the sections that it stands in."""
    free = None
    for match in islice(_SETTING.finditer(block), _MOST):
        sections = _sections(block, match.start())
        if any(_TRAINS.match(section) for section in sections):
            return int(match[1])
        if free is None and not any(_OTHER.match(section) for section in sections):
            free = int(match[1])
    return free


def _sections(block: bytes, at: int) -> list[bytes]:
    """Return the names that lines above have, each indented less than what it holds."""
    start = block.rfind(b"\n", 0, at) + 1
    indent, _ = _setting(block[start:at] + b"batch_size :")
    sections: list[bytes] = []
    for _ in range(_LINES):
        if start == 0 or not indent:
            break
        end = start - 1
        start = block.rfind(b"\n", 0, end) + 1
        depth, name = _setting(block[start : min(end, start + 400)])
        if depth is not None and depth < indent:
            indent = depth
            sections.append(name)
    return sections


def _setting(line: bytes) -> tuple[int | None, bytes]:
    """Return how far a setting is indented, and its name; None where the line is none."""
    match = _KEY.match(_HEAD.sub(b"", line, count=1))
    return (None, b"") if match is None else (len(match[1]), match[2])
