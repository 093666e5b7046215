"""Against stored sessions: what a session differs by, from the spread of the levels of sessions.

All values are logs; higher is better.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.noise import Prior
from pytest_dlperf.judge.stats.levels import (
    Contrast,
    Level,
    Spread,
    is_noisier,
    moderated,
    pooled_run_variance,
    squares,
)
from pytest_dlperf.judge.stats.totals import Totals, totals_of

#: However quiet the runs, so much of the variance that is believed of sessions stays.
_QUIETEST: Final = 0.25
#: However many runs there are now, so much of the variance of sessions stays.
_SURE: Final = 0.3


@dataclass(frozen=True, kw_only=True, slots=True)
class _Variance:
    amount: float
    df: float

    def plus(self, other: _Variance) -> _Variance:
        """Return the sum, with the degrees of freedom that come nearest (Satterthwaite 1946)."""
        if not (self.amount and other.amount):
            return self if self.amount else other
        amount = self.amount + other.amount
        parts = self.amount**2 / self.df + other.amount**2 / other.df
        return _Variance(amount=amount, df=amount**2 / parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sessions:
    """How levels of sessions vary."""

    #: Variance of a level within a node, and its degrees of freedom.
    within: float
    df: float
    #: What nodes add to it, and its degrees of freedom; 0 where all sessions ran on one.
    nodes: float
    nodes_df: float
    node_count: int
    #: That of the levels alone, where it is larger than is believed, beyond chance.
    own: float | None
    own_df: int

    def prediction(self, new: int, old: int) -> _Variance:
        """Return the variance of the mean of ``new`` levels less that of ``old`` ones."""
        within = self.within * (1 / new + 1 / old)
        nodes = self.nodes * (1 + 1 / self.node_count)
        return _Variance(amount=within, df=self.df).plus(_Variance(amount=nodes, df=self.nodes_df))


def _sessions(now: Sequence[Level], stored: Totals, runs: float, prior: Prior) -> _Sessions:
    session = prior.session_sd**2
    if not prior.learnt:
        # Where runs are quieter than is believed, sessions are believed to be so as well.
        session *= min(1.0, max(_QUIETEST, runs / prior.run_sd**2))
    df = stored.within_df + max(0, len(now) - 1)
    total = stored.within_squares + squares([level.value for level in now])
    own = total / df if df else 0.0
    believed = session + stored.share * runs
    within = moderated(believed, prior.session_df, own, df)
    nodes, nodes_df = 0.0, prior.node_df + stored.nodes - 1
    if stored.nodes > 1 or is_new_node(now, stored):
        beyond = stored.nodes_variance - within * stored.nodes_inverse
        own_nodes = max(0.0, beyond)
        nodes = moderated(prior.node_sd**2, prior.node_df, own_nodes, stored.nodes - 1)
    noisier = is_noisier(own, df, believed)
    return _Sessions(
        within=within,
        df=prior.session_df + df,
        nodes=nodes,
        nodes_df=nodes_df,
        node_count=stored.nodes,
        own=own if noisier else None,
        own_df=df,
    )


def is_new_node(now: Sequence[Level], stored: Totals) -> bool:
    """Whether a session ran on a node of which nothing is stored, though other nodes are known."""
    nodes = {level.node for level in now if level.node}
    return bool(stored.node_names) and not nodes <= stored.node_names


def contrast(now: Sequence[Level], stored: Sequence[Level], prior: Prior) -> Contrast:
    """Compare sessions, mostly one, with stored ones, by the spread of the levels of sessions."""
    return contrast_with(now, totals_of(stored, prior), prior)


def contrast_with(now: Sequence[Level], stored: Totals, prior: Prior) -> Contrast:
    """Return what ``contrast`` does, of the totals of the stored levels."""
    shift = statistics.fmean(level.value for level in now) - stored.value
    share = statistics.fmean(level.share for level in now)
    runs_now, _ = pooled_run_variance(stored.runs_df, stored.runs_squares, prior, growing=now)
    return _contrast(shift, now, stored, prior, share * runs_now)


def expected_spread(share_now: float, stored: Sequence[Level], prior: Prior) -> Spread:
    """Return the standard error to expect of one session, from what is stored alone.

    ``share_now`` is how much of the variance of one run is left in that session's level.
    """
    return expected_spread_with(share_now, totals_of(stored, prior), prior)


def expected_spread_with(share_now: float, stored: Totals, prior: Prior) -> Spread:
    """Return what ``expected_spread`` does, of the totals of the stored levels."""
    found = _expected(share_now, stored, prior)
    return Spread(se=found.se, df=found.df)


def expected_alarm(share_now: float, stored: Sequence[Level], prior: Prior) -> tuple[Spread, ...]:
    """Return the spreads that an alarm of such a session has to show against."""
    found = _expected(share_now, totals_of(stored, prior), prior)
    believed = Spread(se=found.se, df=found.df)
    return (believed,) if found.own_alarm is None else (believed, found.own_alarm)


def _expected(share_now: float, stored: Totals, prior: Prior) -> Contrast:
    runs, _ = pooled_run_variance(stored.runs_df, stored.runs_squares, prior)
    return _contrast(0.0, (), stored, prior, share_now * runs)


def _contrast(
    shift: float, now: Sequence[Level], stored: Totals, prior: Prior, runs_now: float
) -> Contrast:
    """Compare, where the runs of a session of now leave the variance ``runs_now`` in its level."""
    runs, _ = pooled_run_variance(stored.runs_df, stored.runs_squares, prior)
    sessions = _sessions(now, stored, runs, prior)
    new, old = max(1, len(now)), stored.count
    predicted = sessions.prediction(new, old)
    variance = predicted.amount
    # Fewer or noisier runs than a stored session had make it wider, more of them tighter.
    apart = (runs_now - stored.share * runs) / new
    alarm = None
    if sessions.own is not None:
        # So few levels would leave t without an end: what is believed keeps its weight in it.
        alarm = Spread(
            se=math.sqrt(sessions.own * (1 / new + 1 / old)),
            df=sessions.own_df + prior.session_df,
        )
    return Contrast(
        shift=shift,
        se=math.sqrt(max(variance + apart, _SURE * variance)),
        df=predicted.df,
        own_alarm=alarm,
    )
