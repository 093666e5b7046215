"""Compares a session with the stored ones: the shift, and how much sessions vary by themselves.

All values are logs; higher is better.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pytest_dlperf.core.verdict import Prior
from pytest_dlperf.judge.stats.contrast import (
    Contrast,
    SessionValue,
    Spread,
    is_noisier,
    moderated,
    run_variance,
    squares,
)

#: The smallest part of the prior's variance of sessions that stays, however quiet the runs are.
_QUIETEST: Final = 0.25
#: The smallest part of the variance of sessions that stays, however many runs there are now.
_SURE: Final = 0.3


def contrast(
    now: Sequence[SessionValue], stored: Sequence[SessionValue], prior: Prior
) -> Contrast:
    """Compare sessions, mostly one, with stored ones, by the spread of the values of sessions."""
    shift = _mean_value(now) - _mean_value(stored)
    runs, _ = run_variance(stored, prior, growing=now)
    by_spread = _contrast(shift, now, stored, prior, _mean_share(now) * runs)
    return replace(by_spread, far=far_of(len(stored), prior))


def far_of(count: int, prior: Prior) -> float:
    """Return the distance that an alarm must keep where ``count`` sessions are stored."""
    return prior.far if count < prior.enough_sessions else 0.0


def expected_alarm(
    share_now: float, stored: Sequence[SessionValue], prior: Prior
) -> tuple[Spread, ...]:
    """Return the spreads that a slowdown of such a session must exceed to be an alarm."""
    expected = _expected(share_now, stored, prior)
    believed = Spread(se=expected.se, df=expected.df)
    return (believed,) if expected.own_alarm is None else (believed, expected.own_alarm)


def expected_contrast(
    share_now: float, stored: Sequence[SessionValue], prior: Prior, *, further: int = 0
) -> Contrast:
    """Return the contrast to expect of an unchanged session, from stored sessions alone.

    ``share_now`` is how much of the variance of one run is left in that session's value. With
    ``further`` sessions stored, that vary as is believed now.
    """
    expected = _expected(share_now, stored, prior, further)
    return replace(expected, far=far_of(len(stored) + further, prior))


def _mean_value(values: Sequence[SessionValue]) -> float:
    return statistics.fmean(one.value for one in values)


def _mean_share(values: Sequence[SessionValue]) -> float:
    return statistics.fmean(one.share for one in values)


def _expected(
    share_now: float, stored: Sequence[SessionValue], prior: Prior, further: int = 0
) -> Contrast:
    runs, _ = run_variance(stored, prior)
    return _contrast(0.0, (), stored, prior, share_now * runs, further=further)


def _contrast(
    shift: float,
    now: Sequence[SessionValue],
    stored: Sequence[SessionValue],
    prior: Prior,
    runs_now: float,
    *,
    further: int = 0,
) -> Contrast:
    """Compare, where the runs of a session of now leave the variance ``runs_now`` in its value.

    ``further``: so many sessions beside the stored ones are taken to vary as is believed.
    """
    runs, _ = run_variance(stored, prior)
    runs_stored = _mean_share(stored) * runs
    sessions = _sessions(now, stored, runs, prior, further)
    new, old = max(1, len(now)), len(stored) + further
    predicted = sessions.variance * (1 / new + 1 / old)
    # Fewer or noisier runs than a stored session had make it wider, more of them tighter.
    variance = predicted + (runs_now - runs_stored) / new
    own = None
    if sessions.own is not None:
        se = math.sqrt(sessions.own * (1 / new + 1 / old))
        # With so few values t has no bound: the prior's degrees of freedom stay in it.
        own = Spread(se=se, df=sessions.df)
    return Contrast(
        shift=shift,
        se=math.sqrt(max(variance, _SURE * predicted)),
        df=sessions.df,
        own_alarm=own,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sessions:
    """How values of sessions vary."""

    #: Variance of a value, and its degrees of freedom.
    variance: float
    df: float
    #: The variance of the values alone, where it exceeds the prior's beyond chance.
    own: float | None


def _sessions(
    now: Sequence[SessionValue],
    stored: Sequence[SessionValue],
    runs: float,
    prior: Prior,
    further: int,
) -> _Sessions:
    """Return how values vary; ``runs`` is the variance between the runs of a session.

    ``further`` values are not measured yet, and are taken to vary as is believed.
    """
    # Where runs are quieter than the prior says, sessions are taken to be quieter as well.
    session = prior.session_sd**2 * min(1.0, max(_QUIETEST, runs / prior.run_sd**2))
    df = len(stored) - 1 + max(0, len(now) - 1)
    total = sum(squares([value.value for value in values]) for values in (stored, now))
    own = total / df if df else 0.0
    believed = session + _mean_share(stored) * runs
    variance = moderated(believed, prior.session_df, own, df)
    if further:
        own, df = moderated(own, df, variance, further), df + further
    return _Sessions(
        variance=variance,
        df=prior.session_df + df,
        own=own if is_noisier(own, df, believed) else None,
    )
