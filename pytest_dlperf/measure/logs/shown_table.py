"""The patterns of a table with a header: comma-separated values, or tabs between them.

The header names the numbers as words beside them do in other logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal

from pytest_dlperf.core.log_pattern import LogPattern, Scope, pattern
from pytest_dlperf.measure.logs.clocks import stamp
from pytest_dlperf.measure.logs.quantities import Quantity
from pytest_dlperf.measure.logs.shown_pattern import (
    GROWS,
    MOSTLY,
    mostly_rises,
    stride_of,
    time_of_several,
)
from pytest_dlperf.measure.logs.speeds import UNIT_UNSAID, Speed, speed_of, unit_of_name
from pytest_dlperf.measure.logs.user_pattern import elapsed_of

#: The header is among so many lines, and rows are looked at so many.
_HEAD_LINES: Final = 64
_ROWS: Final = 2000
#: So many rows make a table.
_FEWEST: Final = 3
_CLOCK_UNSAID: Final = "nothing says whether it is hours and minutes, or minutes and seconds"
_NAME: Final = re.compile(r"[\"']?[A-Za-z_][\w /().%:#-]{0,60}[\"']?")
_STEP: Final = re.compile(
    r"(?:(?:global|train|trainer|training|cur|current|num|n|opt|optimizer|completed)[_/ ])*_?"
    r"(?:steps?|iters?|iterations?|batch|batch_idx|updates?|it|num_updates)",
    re.IGNORECASE,
)
_EPOCH: Final = re.compile(r"(?:train[_/ ])?epochs?", re.IGNORECASE)
#: Seconds by their name; ``_runtime`` is that of wandb.
_ELAPSED: Final = re.compile(
    r"(?:_runtime|(?:\w+[_ /])?(?:elapsed|wall[_ ]?time|run ?time|total[_ ]time|time[_ ]elapsed)"
    r"(?:[_ ]time)?[_ ]?[(\[]?(?:s|sec|secs|seconds)[)\]]?"
    r"|seconds[_ ](?:elapsed|since[_ ]\w+)|elapsed[_ ]seconds)",
    re.IGNORECASE,
)
_TIME: Final = re.compile(r"time|elapsed|clock|stamp|(?:^|_)ts$", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")
_UNIX: Final = re.compile(r"1[4-9]\d{8}(?:\.\d+)?")
_CLOCK: Final = re.compile(r"(?:\d+ days?,? )?\d+:\d+:\d\d(?:\.\d+)?|\d+:\d\d\.\d+")
_SHORT_CLOCK: Final = re.compile(r"\d+:\d\d")


@dataclass(frozen=True, slots=True)
class Table:
    """Columns by their names, and some rows."""

    mark: str
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    #: Blanks are before its numbers.
    is_spaced: bool

    @property
    def header(self) -> str:
        """The line of names."""
        return self.mark.join(self.names)

    def column(self, place: int) -> list[str]:
        """Return the texts of a column that are not empty."""
        return [row[place] for row in self.rows if row[place]]

    def pattern(
        self, groups: dict[int, str], unit: str = "", scope: Scope | Literal[""] = ""
    ) -> LogPattern:
        """Return the pattern that reads some columns as groups."""
        mark = {"\t": r"\t"}.get(self.mark, self.mark)
        last = max(groups)
        blanks = " *" if self.is_spaced else ""
        columns = [
            f"{blanks}(?P<{groups[place]}>[^{mark}]+)" if place in groups else f"[^{mark}]*"
            for place in range(last + 1)
        ]
        ends = "$" if last == len(self.names) - 1 else mark
        return pattern("^" + mark.join(columns) + ends, unit=unit, scope=scope)


def table_in(block: bytes) -> Table | None:
    """Return the table that a log is; None if it is none."""
    lines = [
        line.rstrip(b"\r").decode(errors="surrogateescape")
        for line in islice(block.split(b"\n"), _HEAD_LINES + _ROWS)
    ]
    for place, line in enumerate(lines[:_HEAD_LINES]):
        for mark in ",\t;":
            names = line.split(mark)
            if len(names) < 2 or not all(_NAME.fullmatch(name.strip()) for name in names):
                continue
            titles = [name.strip().strip("\"'") for name in names]
            counts = any(_STEP.fullmatch(title) or _EPOCH.fullmatch(title) for title in titles)
            if not counts and any(" " in title for title in titles):
                continue  # a sentence with a comma
            rows = [row.split(mark) for row in lines[place + 1 :] if row]
            # A run that goes on may write the header again.
            rows = [row for row in rows if len(row) == len(names) and row != names]
            is_spaced = any(text.startswith(" ") for row in rows for text in row)
            rows = [[text.strip() for text in row] for row in rows]
            numbers = sum(any(_NUMBER.fullmatch(text) for text in row) for row in rows)
            if len(rows) >= _FEWEST and numbers >= MOSTLY * len(rows):
                return Table(mark, titles, rows, is_spaced)
    return None


def patterns_of(table: Table) -> Iterator[tuple[LogPattern, str, str]]:
    """Yield patterns of a table, the column that each reads, and in words what is not known of it.

    Where that is the unit of a time, the pattern is right for seconds.
    """
    steps = [
        place
        for place, name in enumerate(table.names)
        if _STEP.fullmatch(name) and _is_rising(table.column(place))
    ]
    if not steps:
        return
    groups = {steps[0]: "step"}
    for place, name in enumerate(table.names):
        if _EPOCH.fullmatch(name) and all(text.isdecimal() for text in table.column(place)):
            groups[place] = "epoch"
    yield from _patterns_of_speeds(table, groups)
    yield from _patterns_of_clocks(table, groups)


def _patterns_of_speeds(
    table: Table, groups: dict[int, str]
) -> Iterator[tuple[LogPattern, str, str]]:
    """Yield patterns of the groups, and of a column that is a speed."""
    (step,) = (place for place, group in groups.items() if group == "step")
    stride = stride_of([*map(int, table.column(step))]) or 1
    for place, speed in _speeds(table):
        name = table.names[place]
        may_be_of_several = speed.group != "rate" and not speed.is_of_iteration
        if may_be_of_several and _rises([*map(float, table.column(place))], strictly=True):
            continue  # a clock
        if may_be_of_several and stride > 1:
            yield table.pattern(groups), name, time_of_several(stride)
        elif speed.doubt == UNIT_UNSAID:
            yield table.pattern(groups | {place: "seconds"}), name, UNIT_UNSAID
        elif speed.doubt or speed.part or speed.is_mean:
            why = speed.doubt or "nothing says over what it is a mean, or whose it is"
            yield table.pattern(groups), name, why
        else:
            # Not said: sentences of the log may be of a part of the devices.
            scope = "" if speed.scope == "global" else speed.scope
            yield table.pattern(groups | {place: speed.group}, speed.unit, scope), name, ""


def _patterns_of_clocks(
    table: Table, groups: dict[int, str]
) -> Iterator[tuple[LogPattern, str, str]]:
    """Yield patterns of the groups, and of a column that is a clock."""
    for place, name in enumerate(table.names):
        texts, speed = table.column(place), speed_of(_named(name))
        if place in groups or not texts or (speed is not None and speed.is_of_iteration):
            continue
        if _is_clock(name, texts):
            yield table.pattern(groups | {place: "elapsed"}), name, ""
        elif stamp(f"{texts[-1]} ".encode(errors="surrogateescape")) is not None:
            yield table.pattern(groups), name, ""
        elif _TIME.search(name) and all(_SHORT_CLOCK.fullmatch(text) for text in texts):
            yield table.pattern(groups), name, _CLOCK_UNSAID
        elif _TIME.search(name) and _is_numbers(texts) and _grows([*map(float, texts)]):
            yield table.pattern(groups | {place: "elapsed"}), name, _doubt_of_clock(name)


def _speeds(table: Table) -> list[tuple[int, Speed]]:
    """Return the columns that are speeds, that of all devices first."""
    speeds = [
        (place, speed)
        for place, name in enumerate(table.names)
        if _is_numbers(table.column(place)) and (speed := speed_of(_named(name)))
    ]

    def preference(speed: tuple[int, Speed]) -> tuple[bool, bool, bool]:
        return bool(speed[1].doubt), speed[1].scope != "global", speed[1].group != "rate"

    return sorted(speeds, key=preference)


def _named(name: str) -> Quantity:
    """Return a number of a column, as if its name were before it."""
    return Quantity(
        text="1", name=name, before=f"{name}=", unit="", start=0, end=1, is_whole=True,
        is_multiplied=False,
    )  # fmt: skip


def _doubt_of_clock(name: str) -> str:
    """Return what is not known of the unit of a clock, in words; empty for seconds."""
    unit = unit_of_name(name)
    if unit is None:
        return UNIT_UNSAID
    is_read = unit.group == "seconds" and not unit.is_of_iteration
    return "" if is_read else "it grows as the time since the begin does, and is not in seconds"


def _is_clock(name: str, texts: Sequence[str]) -> bool:
    """Return whether texts are the time since the begin, or that of a clock, in seconds."""
    if not _rises([elapsed_of(text.encode(errors="replace")) or 0.0 for text in texts]):
        return False
    if all(_CLOCK.fullmatch(text) for text in texts):
        return bool(_TIME.search(name))
    if _TIME.search(name) and all(_UNIX.fullmatch(text) for text in texts):
        return True
    return _is_numbers(texts) and _ELAPSED.fullmatch(name) is not None


def _is_numbers(texts: Sequence[str]) -> bool:
    return bool(texts) and all(_NUMBER.fullmatch(text) for text in texts)


def _is_rising(texts: Sequence[str]) -> bool:
    return all(text.isdecimal() for text in texts) and _rises([float(text) for text in texts])


def _grows(values: Sequence[float]) -> bool:
    return _rises(values) and values[-1] > GROWS * values[0]


def _rises(values: Sequence[float], *, strictly: bool = False) -> bool:
    is_long = len(values) >= _FEWEST
    return is_long and values[-1] != values[0] and mostly_rises(values, strictly=strictly)
