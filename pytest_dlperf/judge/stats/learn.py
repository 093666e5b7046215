"""Learns the noise of a machine class from all of its stored sessions (empirical Bayes)."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.baseline import Session, level_of
from pytest_dlperf.core.verdict import LearntNoise, Prior
from pytest_dlperf.judge.stats.contrast import (
    MEDIAN_DEVIATION,
    is_noisier,
    median_cost,
    undisturbed,
)

#: Degrees of freedom of the built-in prior, against those of the stored sessions.
_BUILT_IN_DF: Final = 2.0
#: Up to so many degrees of freedom a large variance of sessions is not shrunk.
_FIRST_DF: Final = 3
#: Least and most degrees of freedom of the learnt noise, against a case's own spread.
_LEAST_DF, _MOST_DF = 2.0, 30.0
#: The fewest cases whose variances show how much cases differ; below, the built-in value holds.
_FEWEST_CASES: Final = 3
#: Deviations of sessions are cut to this many standard deviations.
_FAR: Final = 3.0
#: The fewest sessions that show that a case varies more than others do.
_FEWEST_SESSIONS: Final = 5
#: Differences are taken to this many following sessions, so that time is linear in sessions.
_NEAR: Final = 9
#: The smallest standard deviation (log) that is learnt.
_FLOOR: Final = 0.001


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spread:
    """A variance, with its degrees of freedom."""

    variance: float
    df: float


def learn(levels: Iterable[Sequence[Session]], built_in: Prior) -> LearntNoise | None:
    """Return the noise of cases, each given as the sessions of one level; None if it is unknown.

    A case's sessions must be of one level: a change of the level is not noise. Sessions that
    observe mode set aside are left out.
    """
    stored = [[one for one in level_of(sessions) if one.runs] for sessions in levels]
    runs = [s for sessions in stored if (s := _of_runs(sessions, built_in)) is not None]
    if not runs:
        return None
    known = _pooled(runs)
    run = _shrunk(known, built_in.run_sd)
    between = _of_sessions([s for sessions in stored for s in _by_node(sessions)], run)
    session = _shrunk(between, built_in.session_sd)
    if between.df <= _FIRST_DF and is_noisier(
        between.variance, between.df, built_in.session_sd**2
    ):
        # The first sessions of a machine: to shrink what they differ by would promise too much.
        session = max(session, between.variance)
    df = _prior_df(runs, built_in.run_df)
    return LearntNoise(
        run_sd=_digits(math.sqrt(run)),
        run_df=_digits(df),
        session_sd=_digits(math.sqrt(session)),
        session_df=_digits(min(df, built_in.session_df + between.df)),
        cases=len(runs),
        sessions=sum(len(sessions) for sessions in stored),
    )


def _by_node(sessions: Sequence[Session]) -> list[list[Session]]:
    """Return the sessions of each node: differences between nodes are not noise between days."""
    found: defaultdict[str, list[Session]] = defaultdict(list)
    for session in sessions:
        found[session.node].append(session)
    return list(found.values())


def _logs(session: Session) -> list[float]:
    return [math.log(rate) for rate in session.runs]


def _of_runs(sessions: Sequence[Session], built_in: Prior) -> _Spread | None:
    """Return the variance between the runs of a session, pooled over the sessions of a case."""
    kept = undisturbed([_logs(one) for one in sessions], built_in.run_sd)
    several = [values for values in kept if len(values) > 1]
    df = sum(len(values) - 1 for values in several)
    if not df:
        return None
    total = sum(statistics.variance(values) * (len(values) - 1) for values in several)
    return _Spread(variance=total / df, df=df)


def _of_sessions(stored: Sequence[Sequence[Session]], run: float) -> _Spread:
    """Return the variance between sessions beyond that of their medians; may be negative.

    Deviations from the median of a case are cut to ``_FAR`` standard deviations, so that a single
    odd day, or an unnoticed change of the level, does not pass for ordinary noise. The standard
    deviation of normal values loses less than 3 %; cut deviations add no degrees of freedom.
    """
    cases = [
        (
            [statistics.median(_logs(one)) for one in sessions],
            run * statistics.fmean(median_cost(len(s.runs)) / len(s.runs) for s in sessions),
        )
        for sessions in stored
        if len(sessions) > 1
    ]
    scale = _scale([levels for levels, _ in cases])
    total, df, cut = 0.0, 0, 0
    for levels, of_runs in cases:
        count, middle = len(levels), statistics.median(levels)
        deviations = [abs(level - middle) for level in levels]
        believed = max(scale, math.sqrt(of_runs), _FLOOR)
        if count >= _FEWEST_SESSIONS:
            believed = max(believed, MEDIAN_DEVIATION * statistics.median(deviations))
        # The expected sum of squares about the median, over the variance
        expected = count - 2 + median_cost(count)
        far = _FAR * believed * math.sqrt(expected / count)
        variance = math.fsum(min(one, far) ** 2 for one in deviations) / expected
        total += (variance - of_runs) * (count - 1)
        df += count - 1
        cut += sum(one > far for one in deviations)
    return _Spread(variance=total / df if df else 0.0, df=max(0, df - cut))


def _scale(cases: Sequence[Sequence[float]]) -> float:
    """Return the standard deviation of levels from the median difference within cases."""
    differences = [
        abs(one - other)
        for levels in cases
        for apart in range(1, min(len(levels), _NEAR + 1))
        for one, other in zip(levels, levels[apart:], strict=False)
    ]
    if not differences:
        return 0.0
    return MEDIAN_DEVIATION * statistics.median(differences) / math.sqrt(2)


def _pooled(spreads: Sequence[_Spread]) -> _Spread:
    df = sum(one.df for one in spreads)
    total = sum(one.variance * one.df for one in spreads)
    return _Spread(variance=total / df if df else 0.0, df=df)


def _shrunk(found: _Spread, built_in_sd: float) -> float:
    """Return the variance, shrunk towards the built-in one."""
    total = max(0.0, found.variance) * found.df + built_in_sd**2 * _BUILT_IN_DF
    return max(_FLOOR**2, total / (found.df + _BUILT_IN_DF))


def _prior_df(spreads: Sequence[_Spread], built_in: float) -> float:
    """Return the degrees of freedom of the pooled variance for one case: fewer if cases differ.

    From the spread of the logs of their variances (Smyth 2004, section 6.2): equal ones have the
    variance trigamma(df / 2); the excess shows how much they differ.
    """
    from scipy.special import digamma, polygamma

    usable = [one for one in spreads if one.variance > 0]
    if len(usable) < _FEWEST_CASES:
        return built_in
    logs = [
        math.log(one.variance) - float(digamma(one.df / 2)) + math.log(one.df / 2)
        for one in usable
    ]
    expected = statistics.fmean(float(polygamma(1, one.df / 2)) for one in usable)
    beyond = statistics.variance(logs) - expected
    if beyond <= float(polygamma(1, _MOST_DF / 2)):
        return _MOST_DF
    low, high = _LEAST_DF, _MOST_DF
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (middle, high) if polygamma(1, middle / 2) > beyond else (low, middle)
    return low


def _digits(value: float) -> float:
    # With more digits the file would change in every session.
    return float(f"{value:.3g}")
