"""The golden file: inputs of the judge, and what it says of them; each equal part once.

A line of the gzipped file is a part of inputs, ``{"part": …}``, numbered from 0 on, or a
judgement. ``{"=": n}`` in a later line is part ``n``.
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import typing
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.codec import decode, encode
from tests.golden.roads import KINDS, Input, Output

PATH: Final = Path(__file__).parent / "judgements.jsonl.gz"
#: Shorter parts are written where they are.
_SHORTEST: Final = 60
#: Significant digits of the numbers of inputs and outputs.
_INPUT_DIGITS: Final = 6
_OUTPUT_DIGITS: Final = 12


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One judgement."""

    #: Where the input is from: a test, a replay, a seeded world.
    source: str
    given: Input
    output: Output


def as_written(given: Input) -> Input:
    """Return the input as the file will have it: its numbers have few digits.

    Raises ``DecodeError`` for what no file can have, as numbers that are not finite.
    """
    return _decoded(type(given), _rounded(_encoded(given), _INPUT_DIGITS), {})


def write(path: Path, records: Iterable[Record]) -> None:
    """Write the records; the same ones make the same bytes."""
    parts: dict[str, int] = {}
    text = io.StringIO()
    for record in records:
        kind = next(name for name, kind in KINDS.items() if isinstance(record.given, kind))
        given = _folded(_encoded(record.given), parts, text)
        output = _rounded(record.output, _OUTPUT_DIGITS)
        line = {"source": record.source, "kind": kind, "given": given, "output": output}
        text.write(_dumped(line) + "\n")
    with path.open("wb") as stream, gzip.GzipFile("", "wb", 9, stream, mtime=0) as packed:
        packed.write(text.getvalue().encode())


def read(path: Path = PATH) -> Iterator[Record]:
    """Yield the records of the file."""
    parts: list[Any] = []
    known: dict[tuple[str, int], Any] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            value = json.loads(line)
            if "part" in value:
                parts.append(_unfolded(value["part"], parts))
                continue
            given = _unfolded(value["given"], parts)
            kind = KINDS[value["kind"]]
            yield Record(
                source=value["source"],
                given=_decoded(kind, given, known),
                output=value["output"],
            )


def _encoded(given: Input) -> Any:
    """Return an input in plain JSON types; sets, which these lack, are empty and left out."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {name: item for name, item in value.items() if item != frozenset()}
            return {name: plain(item) for name, item in kept.items()}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return plain(encode(given))


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False)


def _folded(value: Any, parts: dict[str, int], text: io.StringIO) -> Any:
    """Return ``value`` with the numbers of its longer parts; new parts are written first."""
    if isinstance(value, dict):
        folded: Any = {name: _folded(item, parts, text) for name, item in value.items()}
    elif isinstance(value, list):
        folded = [_folded(item, parts, text) for item in value]
    else:
        return value
    dumped = _dumped(folded)
    if len(dumped) < _SHORTEST:
        return folded
    if dumped not in parts:
        parts[dumped] = len(parts)
        text.write(f'{{"part":{dumped}}}\n')
    return {"=": parts[dumped]}


def _unfolded(value: Any, parts: list[Any]) -> Any:
    if isinstance(value, dict):
        if "=" in value:
            return parts[value["="]]
        return {name: _unfolded(item, parts) for name, item in value.items()}
    return [_unfolded(item, parts) for item in value] if isinstance(value, list) else value


def _rounded(value: Any, digits: int) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item, digits) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item, digits) for item in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _decoded(kind: Any, value: Any, decoded: dict[tuple[str, int], Any]) -> Any:
    """Return an input; arguments that several judgements share are decoded once.

    The values of parts live as long as ``known``, so that their identities name them.
    """
    if value is None:
        return None
    fields = {}
    for name, hint in _hints(kind).items():
        if name not in value:
            continue
        item = value[name]
        inner = [
            argument for argument in (hint, *typing.get_args(hint)) if argument in KINDS.values()
        ]
        key = (f"{hint}", id(item))
        if inner:
            fields[name] = _decoded(inner[0], item, decoded)
        elif not isinstance(item, dict):
            fields[name] = decode(hint, item, name)
        else:
            if key not in decoded:
                decoded[key] = (decode(hint, item, name), item)
            fields[name] = decoded[key][0]
    return kind(**fields)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
