"""The clock of a progress bar, and the mean time of a step by it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from pytest_dlperf.measure.logs.declare import Numbers

#: As ``tqdm`` writes it.
CLOCK: Final = rb"(?:(?P<hours>\d{1,6}):)?(?P<minutes>\d\d):(?P<seconds>\d\d)"
_SECONDS: Final = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}


def bar_numbers(bar: re.Match[bytes]) -> dict[str, float | None]:
    """Return the steps that are done, and the hours, minutes and seconds of the bar's clock."""
    names = ("done", "hours", "minutes", "seconds")
    return {name: None if bar[name] is None else int(bar[name]) for name in names}


def bar_fields(numbers: Mapping[str, Numbers]) -> Mapping[str, Numbers]:
    """Make the step and the mean seconds of one; the first step and second have no record.

    Numbers of a line without a bar, which has no ``done``, are fields as they are.
    """
    if "done" not in numbers:
        return numbers
    fields = {name: value for name, value in numbers.items() if name not in _SECONDS}
    done = fields["step"] = fields.pop("done") // 1
    elapsed_s = sum(
        numbers[part] * seconds for part, seconds in _SECONDS.items() if part in numbers
    )
    return {**fields, "seconds": elapsed_s / done, "is_record": (done >= 1) & (elapsed_s >= 1)}
