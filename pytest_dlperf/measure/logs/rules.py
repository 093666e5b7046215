"""Rules that make a throughput from the windows of a log, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from pytest_dlperf.core.errors import lookup
from pytest_dlperf.measure.logs import spans
from pytest_dlperf.measure.logs.spans import RateSeries


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Selection:
    """The windows that a rule took, and their throughput; None if it cannot give one."""

    series: RateSeries
    throughput: float | None


#: Gets the windows, ``skip`` and ``until`` (None: to the end).
Rule = Callable[[RateSeries, int, int | None], Selection]


def time_weighted(series: RateSeries, skip: int, until: int | None) -> Selection:
    """Return work over time of the windows after ``skip`` iterations, by our own count."""
    flags = spans.after(series, skip)
    kept = series.where(flags if until is None else flags & (series.last <= until))
    return Selection(series=kept, throughput=spans.time_weighted(kept) if len(kept) else None)


def dlperf(series: RateSeries, skip: int, until: int | None) -> Selection:
    """Return the mean of the printed speeds of steps ``skip`` to ``until`` (150 by default)."""
    kept = _windows_by_label(series, skip, until)
    rate = float(np.mean(kept.printed_rate)) if len(kept) else None
    return Selection(series=kept, throughput=rate)


def dlperf_time(series: RateSeries, skip: int, until: int | None) -> Selection:
    """Return work over the time between two time stamps: of the first step kept and the last.

    None if there are no two, or the work of an iteration is unknown.
    """
    kept = _windows_by_label(series, skip, until)
    stamped = ~np.isnan(series.at_s)
    # The window that ends where the first kept one starts has its stamp there.
    before = series.where(stamped & (series.last == (kept.first[0] - 1 if len(kept) else 0)))
    marks = [*_marks(before)[-1:], *_marks(kept.where(~np.isnan(kept.at_s)))]
    if len(marks) < 2:
        return Selection(series=kept, throughput=None)
    (began, first), (ended, last) = marks[0], marks[-1]
    if not kept.knows_work.all():
        return Selection(series=kept, throughput=None)
    work = float(np.mean(kept.work / kept.iterations)) * (last - first)
    rate = work / (ended - began) if ended > began else None
    return Selection(series=kept, throughput=rate)


def _marks(series: RateSeries) -> list[tuple[float, float]]:
    """Return time stamp and last iteration of each."""
    return list(zip(series.at_s.tolist(), series.last.tolist(), strict=True))


def last_step(until: int | None) -> int:
    """Return the last step of the rules that go by printed steps; 150, as in the reports."""
    return 150 if until is None else until


def _windows_by_label(series: RateSeries, skip: int, until: int | None) -> RateSeries:
    end = last_step(until)
    starts = np.isnan(series.label_start) | (series.label_start >= skip)
    return series.where((series.label > skip) & (series.label <= end) & starts)


#: Rules whose ``skip`` and ``until`` are printed steps.
BY_LABEL: Final = frozenset({"dlperf", "dlperf-time"})

RULES: Final[Mapping[str, Rule]] = {
    "time-weighted": time_weighted,
    "dlperf": dlperf,
    "dlperf-time": dlperf_time,
}


def needs_stamps(name: str) -> bool:
    """Return whether the rule looks at the time stamps of lines."""
    return name == "dlperf-time"


def named(name: str) -> Rule:
    """Return a rule; raise ``UnknownNameError`` that lists what is known."""
    return lookup("rule", name, RULES)
