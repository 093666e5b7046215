"""The noise of a machine class, learnt from all that is stored of it (empirical Bayes)."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.noise import LearntNoise, Prior
from pytest_dlperf.judge.stats import median_cost, undisturbed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_dlperf.core.baseline import Session

#: The built-in prior counts as so many degrees of freedom among those that were stored.
_BUILT_IN_DF: Final = 2.0
#: What was learnt counts at least and at most so much against a case's own spread.
_LEAST_DF, _MOST_DF = 2.0, 30.0
#: From so many cases on their variances tell how much cases differ; below, what is built in.
_FEWEST_CASES: Final = 3
#: No throughput is believed to vary less (log).
_FLOOR: Final = 0.001


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spread:
    """A variance, with its degrees of freedom."""

    variance: float
    df: float


def learn(levels: Iterable[Sequence[Session]], built_in: Prior) -> LearntNoise | None:
    """Return the noise of cases, each given as the sessions of one level; None if none tells any.

    A case's sessions must be of one level: a change of the level is no noise.
    """
    stored = [[one for one in sessions if one.runs] for sessions in levels]
    runs = [s for sessions in stored if (s := _of_runs(sessions, built_in)) is not None]
    if not runs:
        return None
    known = _pooled(runs)
    run = _shrunk(known, built_in.run_sd)
    between = [
        spread for sessions in stored if (spread := _of_sessions(sessions, run)) is not None
    ]
    session = _shrunk(_pooled(between), built_in.session_sd)
    df = _prior_df(runs, built_in.run_df)
    return LearntNoise(
        run_sd=_digits(math.sqrt(run)),
        run_df=_digits(df),
        session_sd=_digits(math.sqrt(session)),
        session_df=_digits(min(df, built_in.session_df + _pooled(between).df)),
        cases=len(runs),
        sessions=sum(len(sessions) for sessions in stored),
    )


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


def _of_sessions(sessions: Sequence[Session], run: float) -> _Spread | None:
    """Return the variance between sessions beyond that of their medians; may be negative."""
    if len(sessions) < 2:
        return None
    values = [statistics.median(_logs(one)) for one in sessions]
    share = statistics.fmean(median_cost(len(one.runs)) / len(one.runs) for one in sessions)
    return _Spread(variance=statistics.variance(values) - share * run, df=len(values) - 1)


def _pooled(spreads: Sequence[_Spread]) -> _Spread:
    df = sum(one.df for one in spreads)
    total = sum(one.variance * one.df for one in spreads)
    return _Spread(variance=total / df if df else 0.0, df=df)


def _shrunk(found: _Spread, built_in_sd: float) -> float:
    """Return the variance, with the built-in one as some more degrees of freedom."""
    total = max(0.0, found.variance) * found.df + built_in_sd**2 * _BUILT_IN_DF
    return max(_FLOOR**2, total / (found.df + _BUILT_IN_DF))


def _prior_df(spreads: Sequence[_Spread], built_in: float) -> float:
    """Return what the pooled variance is worth for one case: less, the more cases differ.

    By the spread of the logs of their variances (Smyth 2004, section 6.2): that of equal ones has
    the variance trigamma(df / 2); what is beyond that is how much they differ.
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
    # More would show noise in every diff.
    return float(f"{value:.3g}")
