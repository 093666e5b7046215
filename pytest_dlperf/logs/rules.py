"""Rules by which a rate is taken from a log, by their names."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.lookup import lookup
from pytest_dlperf.logs import spans
from pytest_dlperf.logs.spans import Stretch


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """What one rule took, and the rate it gives; None where it cannot."""

    stretches: tuple[Stretch, ...]
    throughput: float | None


#: Gets stretches, ``skip`` and ``until`` (None: to the end).
Rule = Callable[[Sequence[Stretch], int, int | None], Selection]


def time_weighted(stretches: Sequence[Stretch], skip: int, until: int | None) -> Selection:
    """Work over time of what is left after ``skip`` iterations, by our own count."""
    kept = tuple(
        stretch
        for stretch in spans.after(stretches, skip)
        if until is None or stretch.last <= until
    )
    return Selection(stretches=kept, throughput=spans.time_weighted(kept) if kept else None)


def dlperf(stretches: Sequence[Stretch], skip: int, until: int | None) -> Selection:
    """Mean of the printed speeds of steps ``skip`` to ``until`` (seed 003, 150 by default)."""
    kept = _by_label(stretches, skip, until)
    rate = statistics.fmean(stretch.printed_rate for stretch in kept) if kept else None
    return Selection(stretches=kept, throughput=rate)


def dlperf_time(stretches: Sequence[Stretch], skip: int, until: int | None) -> Selection:
    """Work between two time stamps: of the first step kept and of the last."""
    kept = _by_label(stretches, skip, until)
    stamped = [stretch for stretch in kept if stretch.at_s is not None]
    # The window that ends where the first kept one starts has its stamp there.
    before = [s for s in stretches if kept and s.last == kept[0].first - 1 and s.at_s is not None]
    marks = [*before[-1:], *stamped]
    if len(marks) < 2:
        return Selection(stretches=kept, throughput=None)
    seconds = (marks[-1].at_s or 0.0) - (marks[0].at_s or 0.0)
    work = sum(s.work / s.iterations for s in kept) / len(kept) * (marks[-1].last - marks[0].last)
    return Selection(stretches=kept, throughput=work / seconds if seconds > 0 else None)


def _by_label(stretches: Sequence[Stretch], skip: int, until: int | None) -> tuple[Stretch, ...]:
    end = 150 if until is None else until
    return tuple(
        s
        for s in stretches
        if skip < s.label <= end and (s.label_start is None or s.label_start >= skip)
    )


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
