"""Takes the machine's speed out of rates, where that makes them vary less.

Each run of a training on CPUs did fixed work between the blocks of its window
(``worker/machine_speed.py``). Rates over the speed of that work are compared in place of the
rates, where both sides have it of one work and it lowers their own spread: work that does not
slow as the training does would add noise, and takes nothing out.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.judge.stats.contrast import squares

#: The variance that may be left, as a share of that of the rates as they were measured. Live, on
#: a two-core virtual machine, 0.05 to 0.25 was left (docs/verdicts.md).
_LEFT: Final = 0.8
#: With fewer degrees of freedom than this, a smaller spread may be chance.
_FEWEST_DF: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class AtStoredSpeed:
    """Rates as they would be, had the machine always had its mean speed of the stored runs."""

    now: tuple[float, ...]
    #: Of each stored session.
    stored: tuple[tuple[float, ...], ...]
    #: The machine's speed, now / before - 1.
    change: float


def at_stored_speed(runs: Sequence[RunSummary], stored: Sequence[Session]) -> AtStoredSpeed | None:
    """Return the rates of both sides with the machine's speed taken out; ``runs`` may be empty.

    None where a side does not know it, or did other work, and where they would not vary less.
    """
    known = [*(one.machine_speed for one in stored), *(run.machine_speed for run in runs)]
    works = set.intersection(*map(set, known))
    if len(works) != 1:
        return None
    work = works.pop()
    speeds_now = [run.machine_speed[work] for run in runs]
    speeds = [one.machine_speed[work] for one in stored]
    if not all(map(_is_speed, [*speeds_now, *(s for some in speeds for s in some)])):
        return None
    mean = math.exp(_mean_log([s for some in speeds for s in some]))
    found = AtStoredSpeed(
        now=_over([run.throughput for run in runs], speeds_now, mean),
        stored=tuple(
            _over(one.runs, some, mean) for one, some in zip(stored, speeds, strict=True)
        ),
        change=math.exp(_mean_log(speeds_now)) / mean - 1 if runs else 0.0,
    )
    as_measured = _spread([run.throughput for run in runs], [one.runs for one in stored])
    return found if _varies_less(_spread(found.now, found.stored), as_measured) else None


def without_machine(session: Session) -> tuple[float, ...]:
    """Return a stored session's rates over its machine's speed; nothing where it is unknown."""
    if len(session.machine_speed) != 1:
        return ()
    (speeds,) = session.machine_speed.values()
    return _over(session.runs, speeds, 1.0) if all(map(_is_speed, speeds)) else ()


def _is_speed(value: float) -> bool:
    return math.isfinite(value) and value > 0


def _over(rates: Sequence[float], speeds: Sequence[float], mean: float) -> tuple[float, ...]:
    return tuple(rate * mean / speed for rate, speed in zip(rates, speeds, strict=True))


def _mean_log(values: Sequence[float]) -> float:
    return statistics.fmean(map(math.log, values))


def _spread(now: Sequence[float], stored: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the sum of squares of logs, and its degrees of freedom.

    Of the runs of now about their mean, and of all stored ones about theirs: what sessions differ
    by counts as well. Now and stored are not compared, as the code may have changed between.
    """
    before = [math.log(rate) for rates in stored for rate in rates]
    total = squares(before) + squares([math.log(rate) for rate in now])
    return total, max(0, len(before) - 1) + max(0, len(now) - 1)


def _varies_less(found: tuple[float, int], as_measured: tuple[float, int]) -> bool:
    total, df = found
    return df >= _FEWEST_DF and total < _LEFT * as_measured[0]
