"""The work of an iteration by the lines that a user's pattern reads: their rate and their time.

A pattern takes the rate, and the time of a step that is printed beside it says what it is of.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from pytest_dlperf.measure.logs.quantities import quantities
from pytest_dlperf.measure.logs.speeds import Speed, speed_of

#: Of so many lines the products of rate and time are taken; of so many in a row, then of few.
_MOST_PRODUCTS: Final = 512
_IN_A_ROW: Final = 64
_ONE_IN: Final = 16
_LEAST_PRODUCTS: Final = 5
#: Rate and time are of one timer if the middle half of their products is within this share.
_SAME_TIMER: Final = 0.02
#: A time that is rounded by more of itself says too little.
_ROUNDED: Final = 0.02
_NUMBER: Final = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.(?P<decimals>\d+))?")


class WorkOfLines:
    """The work of an iteration by the rates that a pattern reads and the time on their lines."""

    def __init__(self) -> None:
        self._lines = 0
        self._products: list[float] = []

    def add(self, line: bytes, rate: float) -> None:
        """Take in a line and its rate; of many lines few are looked at."""
        self._lines += 1
        is_skipped = self._lines > _IN_A_ROW and self._lines % _ONE_IN
        if is_skipped or len(self._products) >= _MOST_PRODUCTS:
            return
        seconds = seconds_of(line)
        if seconds is not None:
            self._products.append(rate * seconds)

    @property
    def work(self) -> float | None:
        """The work; None where lines have no time, or one of another timer than the rate's."""
        if len(self._products) < _LEAST_PRODUCTS:
            return None
        low, middle, high = np.quantile(self._products, (0.25, 0.5, 0.75)).tolist()
        return float(middle) if high - low <= _SAME_TIMER * middle else None


def seconds_of(line: bytes) -> float | None:
    """Return the time of an iteration that a line prints; None where it is not one alone."""
    speeds = [
        speed
        for number in quantities(line.decode(errors="surrogateescape"))
        if (speed := speed_of(number)) is not None and _is_time(speed)
    ]
    sure = [speed for speed in speeds if speed.is_of_iteration] or speeds
    if len(sure) != 1:
        return None
    number = _NUMBER.fullmatch(sure[0].number.text)
    if number is None:
        return None
    value = float(number[0].replace(",", ""))
    rounding = 0.5 * 10.0 ** -len(number["decimals"] or "")
    if rounding > _ROUNDED * value:
        return None
    return value / 1000 if sure[0].group == "milliseconds" else value


def _is_time(speed: Speed) -> bool:
    is_known = not speed.doubt and not speed.foreign and not speed.is_mean
    return speed.group in {"seconds", "milliseconds"} and is_known
