"""What a line says right beside the number that a group of a user's pattern found.

A letter that multiplies a number, an exponent, or the seconds of a clock are a part of it; a unit
of time may be another one than the name of the group says. Then the group has no number.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.grouped_digits import is_of_group
from pytest_dlperf.measure.logs.speeds import (
    MILLISECOND,
    MULTIPLE_NAME,
    OTHER_TIMES,
    SECOND,
)

#: A multiple: ``12.3k tok/s``, ``1.05Mtok/s``; not the unit of ``12 GB``.
_MULTIPLE: Final = rb"[kKMGT](?:(?![A-Za-z])|(?=tok|img|im/|imag|samp|seq|iter|it/|step))"
#: The rest of a number that a group found the begin of, by the group.
_REST_OF_ALL: Final = re.compile(rb" ?" + _MULTIPLE + rb"|[eE][+-]?\d")
_REST_OF_STEP: Final = re.compile(rb"\.?\d*" + _MULTIPLE + rb"|,\d{3}(?!\d)|\.\d|[eE][+-]?\d")
_CLOCK_BEHIND: Final = re.compile(rb":\d")
_CLOCK_BEFORE: Final = re.compile(rb"\d:$")
#: A name that multiplies the number behind it: ``tok/s (k): 123.4``.
_MULTIPLE_BEFORE: Final = re.compile(MULTIPLE_NAME.encode() + rb"['\"]?[ ]?[:=]? {0,8}['\"]?$")
#: Units of time, by the group that has them.
_UNITS: Final = {
    name: "|".join(sorted(words, key=len, reverse=True)).encode()
    for name, words in (
        ("seconds", SECOND), ("milliseconds", MILLISECOND), ("others", OTHER_TIMES),
    )
}  # fmt: skip
_UNIT_BEHIND: Final = {
    name: re.compile(rb" ?(?:" + unit + rb")(?![A-Za-z0-9_])") for name, unit in _UNITS.items()
}
#: In brackets or behind an underscore: ``time (ms): 12``, ``time_us=12``.
_UNIT_BEFORE: Final = {
    name: re.compile(rb"(?:[\[(]|_)(?:" + unit + rb")[\])]?['\"]?[ ]?[:=] {0,8}['\"]?$")
    for name, unit in _UNITS.items()
}
_RATE_BEHIND: Final = re.compile(
    rb" ?[A-Za-z]{0,24} ?(?:/|per )(?:"
    + b"|".join((_UNITS["milliseconds"], _UNITS["others"]))
    + rb")(?![A-Za-z0-9_])"
)
_IN_SECONDS: Final = {"seconds", "data"}
_IN_MILLISECONDS: Final = {"milliseconds", "data_milliseconds"}
_LOOKS_BEFORE: Final = 40


def contradicts(match: re.Match[bytes], group: str) -> bool:
    """Return whether what is right beside a group makes its number another one.

    ``seconds`` with ``ms`` behind them, or a rate with ``/min``, are no number of that group.
    """
    text = match[group]
    if text is None or not text[-1:].isdigit():
        return False
    line, (start, end) = match.string, match.span(group)
    before = line[max(0, start - _LOOKS_BEFORE) : start]
    if group == "step":
        return _REST_OF_STEP.match(line, end) is not None and not is_of_group(match, end + 1)
    if group in {"epoch", "loss"}:
        return False
    if _REST_OF_ALL.match(line, end) or _MULTIPLE_BEFORE.search(before):
        return True
    if group == "rate":
        return _RATE_BEHIND.match(line, end) is not None
    if _CLOCK_BEHIND.match(line, end) or _CLOCK_BEFORE.search(before):
        return True
    own = "seconds" if group in _IN_SECONDS else "milliseconds"
    return any(
        _UNIT_BEHIND[name].match(line, end) or _UNIT_BEFORE[name].search(before)
        for name in _UNITS
        if name != own
    )
