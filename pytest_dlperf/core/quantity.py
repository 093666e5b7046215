"""Quantities as users write them, such as ``3%`` and ``45m``, and numbers as they are stored."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from typing import Final

from pytest_dlperf.core.errors import UsageError

#: Units that mean ``samples``. A token does not: a sample has many.
_SAMPLES: Final = frozenset({"images", "clips", "sequences"})
_GENERIC: Final = "samples"
#: Units of which each entry of a batch is one. Of any other, such as tokens, pixels or frames, an
#: entry may have many, so that the batch does not count them.
_OF_BATCH: Final = _SAMPLES | {
    _GENERIC, "examples", "instances", "items", "records", "rows", "faces", "pictures", "videos",
    "crops", "sentences", "documents", "utterances", "graphs", "molecules",
}  # fmt: skip
#: Other names for the precisions of cases. ``fp16`` may mean mixed or pure.
_MEANINGS: Final = {
    "fp16": frozenset({"amp", "pure_fp16"}),
    "float16": frozenset({"amp", "pure_fp16"}),
    "bfloat16": frozenset({"bf16"}),
    "float32": frozenset({"fp32"}),
}
#: Significant digits of numbers in a baseline. More would show noise in every diff; a rate is not
#: known to 1 in a million.
_STORED_DIGITS: Final = 6
#: Seconds of the units of durations.
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0}

#: Work is often a printed rate times a printed time.
_SAME_WORK: Final = 1.01


def same_unit(unit: str, second: str) -> bool:
    """Whether two units count the same thing; ``samples`` is the generic word."""
    if unit == second:
        return True
    return (unit == _GENERIC and second in _SAMPLES) or (second == _GENERIC and unit in _SAMPLES)


def same_work(work: float, second: float) -> bool:
    """Whether two amounts of work of an iteration are the same, but for rounding."""
    return max(work, second) <= _SAME_WORK * min(work, second)


def counts_batch(unit: str) -> bool:
    """Whether each entry of a batch is one of ``unit``; empty means ``samples``."""
    return not unit or unit.lower() in _OF_BATCH


def same_precision(word: str, second: str) -> bool:
    """Whether two words may name one precision."""
    return word == second or bool(precisions(word) & precisions(second))


def precisions(word: str) -> frozenset[str]:
    """Return the precisions of cases that ``word`` may mean."""
    return _MEANINGS.get(word, frozenset({word}))


def parse_share(value: str | float, *, what: str) -> float:
    """Return ``value`` as a share of 1, at least 0.

    Raises ``UsageError`` for text that is not a number, for a negative one, and for a bare
    number of 1 or more (``5`` would be 500 %; write ``500%`` for that).
    """
    text = str(value).strip()
    percent = text.endswith("%")
    try:
        number = float(text[:-1] if percent else text)
    except ValueError:
        raise UsageError(f"{what}: {text!r} is not a number; write 3% or 0.03") from None
    if not math.isfinite(number) or number < 0:
        raise UsageError(f"{what}: {text!r} must be a finite number, 0 or more; write 3% or 0.03")
    if percent:
        return number / 100
    if number >= 1:
        raise UsageError(f"{what}: a bare {text} would mean {number:.0%}; write {text}% instead")
    return number


def parse_duration(text: str, *, what: str) -> float:
    """Return the seconds that ``45m``, ``1h30m`` or ``90s`` are.

    Raises ``UsageError`` for anything else: a bare number has no unit.
    """
    parts = re.findall(r"(\d{1,9}(?:\.\d{1,9})?)([hms])", text.strip())
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text.strip() or not seconds > 0:
        raise UsageError(f"{what}: {text!r} is not a duration; write 45m, 1h30m or 90s")
    return seconds


def parse_time(text: str, *, what: str) -> str:
    """Return the time in UTC as outcomes have it; ``text`` is a date, or a time with its offset.

    Raises ``UsageError`` for text that is not ISO 8601.
    """
    words = text.strip()
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", words):
            words += "T00:00:00Z"
        time = datetime.datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", words))
        if time.tzinfo is None:
            raise UsageError(f"{what}: {text!r} has no offset; write {text}Z for UTC")
        return f"{time.astimezone(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError):
        raise UsageError(
            f"{what}: {text!r} is not a time; write 2026-11-22 or 2026-11-22T08:00:00+01:00"
        ) from None


def amount(value: float) -> str:
    """Return ``value`` with four digits, or with its whole part if that has more; no exponent."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def scaled(value: int, unit: str = "") -> str:
    """Return a whole number in four digits with its unit: bytes by 1024, others by 1000."""
    step, prefixes = (1024.0, ("", "Ki", "Mi", "Gi", "Ti", "Pi")) if unit == "bytes" else (
        1000.0, ("", "k", "M", "G", "T", "P", "E")
    )  # fmt: skip
    if not unit:
        return f"{value:,}"
    size, index = float(value), 0
    while abs(size) >= step and index < len(prefixes) - 1:
        size, index = size / step, index + 1
    short = {"bytes": "B"}.get(unit, unit)
    if not index:
        return f"{value} {unit}"
    return f"{size:.4g} {prefixes[index]}{short}"


def percent(share: float) -> str:
    """Return a share as ``12.3 %``."""
    return f"{100 * share:.1f} %"


def signed(share: float) -> str:
    """Return a change as ``+1.2 %``."""
    return f"{100 * share:+.1f} %"


def rounded(values: Iterable[float]) -> tuple[float, ...]:
    """Return the values with the digits that a baseline stores."""
    return tuple(float(f"{value:.{_STORED_DIGITS}g}") for value in values)


def whole_number(value: str, shown: str, least: int) -> int:
    """Return a whole number that is not below ``least``; ``shown`` names it in an error."""
    if not value.strip().isdecimal() or int(value) < least:
        raise UsageError(f"{shown}={value}: give a whole number, {least} or more")
    return int(value)


def is_number(value: object) -> bool:
    """Return whether ``value`` is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
