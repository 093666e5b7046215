"""Lists in which the same rows follow each other again and again, written once with their number.

The collectives of layers that are alike: ``{"times": 31, "of": [GATHER, SCATTER]}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pytest_dlperf.core.codec import DecodeError

#: Rows that are looked for together at most: those of a layer.
_LONGEST: Final = 32
_FIELDS: Final = {"times", "of"}
#: Rows of a list at most: no step starts more, and a damaged number makes no more.
_MOST: Final = 10**6


def folded(rows: Sequence[Any]) -> list[Any]:
    """Return ``rows`` with what repeats folded; ``unfolded`` returns them as they were."""
    result: list[Any] = []
    place = 0
    while place < len(rows):
        length, times = _repeated(rows, place)
        if times > 1:
            result.append({"times": times, "of": list(rows[place : place + length])})
        else:
            result.append(rows[place])
        place += length * times
    return result


def _repeated(rows: Sequence[Any], place: int) -> tuple[int, int]:
    """Return how many rows from ``place`` on repeat, and how often, so that most are folded."""
    best = (1, 1)
    for length in range(1, _LONGEST + 1):
        block, times = rows[place : place + length], 1
        while rows[place + times * length : place + (times + 1) * length] == block:
            times += 1
        if length * (times - 1) > best[0] * (best[1] - 1):
            best = (length, times)
    return best


def unfolded(rows: Any) -> Any:
    """Return the list that was folded; raise ``DecodeError`` for what is none."""
    if not isinstance(rows, list):
        return rows
    result: list[Any] = []
    for row in rows:
        if not (isinstance(row, dict) and row.keys() == _FIELDS):
            result.append(row)
            continue
        times, block = row["times"], row["of"]
        if type(times) is not int or times < 1 or not isinstance(block, list):
            raise DecodeError("times must be a whole number above 0, of a list")
        if len(result) + times * len(block) > _MOST:
            raise DecodeError(f"times {times}: more rows than a step can have")
        result += [dict(item) if isinstance(item, dict) else item for item in block * times]
    return result
