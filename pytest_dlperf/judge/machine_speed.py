"""Takes the machine's speed out of rates, where that makes them vary less.

Each run of a training on CPUs did fixed work between the blocks of its window
(``worker/machine_speed.py``). From log rates a slope times the log speed of that work is
subtracted, where both sides have it of one work and rates then vary less: work that does not slow
as the training does would add noise. The slope is learnt from the runs themselves, and weakly
expected: a training with a larger working set than the fixed work follows the machine further.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Prior
from pytest_dlperf.judge.stats.contrast import moderated

#: The slope that is expected, and its standard deviation. Live, on a two-core virtual machine,
#: 15 of 17 tiny trainings had 0.97 to 1.66 between runs (standard errors of 0.06 to 0.3), one 2.4,
#: and one no slope to speak of; two of them 1.4 to 2.1 between sessions, where errors of the
#: speed flatten it less (``benchmarks/live_replay.py``).
_SLOPE: Final = 1.6
_SLOPE_SD: Final = 0.5
#: Standard deviation of the slope from session to session: neighbours that contend for memory slow
#: a training further than the fixed work, and others less. From the same sessions, by what is left
#: of changes where the speed moved and where it did not.
_SLOPES_DIFFER: Final = 0.25
#: The squares that may be left, each run predicted by the others, as a share of those of the
#: rates as they were measured.
_LEFT: Final = 0.8
#: With fewer degrees of freedom than this, a smaller variance may be chance.
_FEWEST_DF: Final = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class AtStoredSpeed:
    """Rates as they would be, had the machine always had its mean speed of the stored runs."""

    now: tuple[float, ...]
    #: Of each stored session.
    stored: tuple[tuple[float, ...], ...]
    #: The machine's speed, now / before - 1, and how much of it in logs a rate follows.
    change: float
    slope: float
    #: Standard error that slopes add to the log of now over before; degrees of freedom.
    noise: float
    df: float


class Side(NamedTuple):
    """Rates of runs, and the machine's speed in each of them by the name of the fixed work."""

    rates: Sequence[float]
    speeds: Mapping[str, Sequence[float]]


def side_of_runs(runs: Sequence[RunSummary]) -> Side:
    """Return the rates and speeds of ``runs``, by the works that all of them did."""
    works = set.intersection(*(set(run.machine_speed) for run in runs)) if runs else set()
    speeds = {work: [run.machine_speed[work] for run in runs] for work in works}
    return Side([run.throughput for run in runs], speeds)


class _Group(NamedTuple):
    """Log rates and log speeds of runs that may be compared with each other."""

    rates: list[float]
    speeds: list[float]


def at_stored_speed(
    now: Side | None, stored: Sequence[Session], prior: Prior
) -> AtStoredSpeed | None:
    """Return the rates of both sides with the machine's speed taken out; ``now`` may be missing.

    ``prior`` is that of such rates. None where a side does not know the speed, or did other work,
    and where rates would not vary less.
    """
    known = [one.machine_speed for one in stored] + ([now.speeds] if now else [])
    works = set.intersection(*map(set, known))
    if len(works) != 1:
        return None
    work = works.pop()
    sides = [(one.runs, one.machine_speed[work]) for one in stored]
    side_now = (now.rates, now.speeds[work]) if now else ((), ())
    if not all(math.isfinite(s) and s > 0 for _, some in (*sides, side_now) for s in some):
        return None
    # What sessions of a node differ by counts as well. Now is apart: the code may have changed.
    nodes = sorted({one.node for one in stored})
    groups = [
        _logs([side for one, side in zip(stored, sides, strict=True) if one.node == node])
        for node in nodes
    ]
    logs_now = _logs([side_now])
    fit = _fit([*groups, logs_now], prior)
    if fit is None:
        return None
    slope, slope_sd, df = fit
    # A session counts once, however many runs it has, as in what it is compared with
    means = [statistics.fmean(_logs([side]).speeds) for side in sides]
    mean = statistics.fmean(means)
    change = statistics.fmean(logs_now.speeds) - mean if now else 0.0
    # How far stored speeds are apart counts too, by the root of their number in their mean
    own = math.dist(means, [mean] * len(means)) / len(means)
    return AtStoredSpeed(
        now=_without(side_now, slope, mean),
        stored=tuple(_without(side, slope, mean) for side in sides),
        change=math.expm1(change),
        slope=slope,
        noise=math.hypot(slope_sd * change, _SLOPES_DIFFER * change, _SLOPES_DIFFER * own),
        df=df,
    )


def _logs(sides: Sequence[tuple[Sequence[float], Sequence[float]]]) -> _Group:
    rates = [math.log(rate) for side, _ in sides for rate in side]
    return _Group(rates, [math.log(speed) for _, side in sides for speed in side])


def _fit(groups: Sequence[_Group], prior: Prior) -> tuple[float, float, float] | None:
    """Return the slope within groups, its standard deviation, and the degrees of freedom of that.

    The mean of the expected slope and of the least squares, weighted by their precision. None
    where the speed, taken out by what the other runs show, makes a run no easier to predict.
    """
    centred = [one for group in groups for one in _centred(group)]
    df = sum(max(0, len(group.rates) - 1) for group in groups)
    if df < _FEWEST_DF:
        return None
    spread = math.fsum(one.speed**2 for one in centred)
    together = math.fsum(one.rate * one.speed for one in centred)
    slope, precision, variance = _SLOPE, _SLOPE_SD**-2, prior.run_sd**2
    for _ in range(2):  # the variance of what is left depends on the slope
        left = math.fsum((one.rate - slope * one.speed) ** 2 for one in centred)
        variance = moderated(prior.run_sd**2, prior.run_df, left / df, df)
        precision = spread / variance + _SLOPE_SD**-2
        slope = (together / variance + _SLOPE * _SLOPE_SD**-2) / precision
    with_speed = _missed(centred, slope, variance * precision)
    if with_speed >= _LEFT * _missed(centred, 0.0, math.inf):
        return None
    return slope, precision**-0.5, prior.run_df + df


class _Centred(NamedTuple):
    """A run: its log rate and speed less the means of its group of that many runs."""

    rate: float
    speed: float
    of: int


def _centred(group: _Group) -> list[_Centred]:
    if not group.rates:
        return []
    rate, speed = statistics.fmean(group.rates), statistics.fmean(group.speeds)
    pairs = zip(group.rates, group.speeds, strict=True)
    return [_Centred(a - rate, b - speed, len(group.rates)) for a, b in pairs]


def _missed(runs: Sequence[_Centred], slope: float, weight: float) -> float:
    """Return the sum of squares by which runs miss what all others predict of them.

    ``weight`` is that of all speeds and of the expected slope, so that a run's leverage on its own
    prediction is known (leave-one-out residuals of least squares, Allen 1974).
    """
    missed = 0.0
    for one in runs:
        own = 1 / one.of + one.speed**2 / weight
        if own < 1:
            missed += ((one.rate - slope * one.speed) / (1 - own)) ** 2
    return missed


def _without(
    side: tuple[Sequence[float], Sequence[float]], slope: float, mean: float
) -> tuple[float, ...]:
    rates, speeds = side
    pairs = zip(rates, speeds, strict=True)
    return tuple(rate * math.exp(slope * (mean - math.log(speed))) for rate, speed in pairs)


def why_left_in(now: Side, stored: Sequence[Session]) -> str:
    """Return why the speed of ``now`` cannot be compared with that of ``stored``; else nothing.

    Not where it can be, and rates would not vary less. Nothing where no side has a speed: GPUs,
    and what cannot be sampled, never have it.
    """
    if not now.speeds:
        known = sum(bool(one.machine_speed) for one in stored)
        if not known:
            return ""
        return (
            f"the machine's speed is not taken out, as runs did not sample it, where {known} of "
            f"{len(stored)} stored sessions did: a rank has processes or threads of its own that "
            "it did not have then, or its window is too short; if no run did, the canary is not "
            "compared either"
        )
    lacking = sum(not one.machine_speed for one in stored)
    if lacking:
        return (
            f"the machine's speed is not taken out, as {lacking} of {len(stored)} stored sessions "
            "do not have it; they leave the baseline as newer ones are stored"
        )
    other = sum(not set(now.speeds).intersection(one.machine_speed) for one in stored)
    if other:
        return (
            f"the machine's speed is not taken out, nor is its canary compared with {other} of "
            f"{len(stored)} stored sessions, which had another version of the framework, or other "
            "threads, flags or variables"
        )
    return ""
