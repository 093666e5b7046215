"""Compares a session with the stored ones: the shift, and how much sessions vary by themselves.

All values are logs; higher is better.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
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
    squares_of_runs,
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
    found = _contrast(shift, now, stored, prior, _mean_share(now) * runs)
    return replace(found, far=_far(now, stored, prior))


def _far(now: Sequence[SessionValue], stored: Sequence[SessionValue], prior: Prior) -> float:
    """Return the distance that an alarm must keep on a machine whose noise is not known yet.

    One stored session says nothing of how far sessions differ, and its runs followed each other
    at once. Where runs vary more than those of a quiet machine, sessions are taken to differ as
    those of the recorded virtual machine did.
    """
    if not prior.far or len(stored) > 1:
        return 0.0
    df, total = squares_of_runs([*stored, *now], prior)
    is_noisy = df > 0 and is_noisier(total / df, df, prior.quiet_run_sd**2)
    return prior.far if is_noisy else 0.0


def expected_spread(share_now: float, stored: Sequence[SessionValue], prior: Prior) -> Spread:
    """Return the standard error to expect of one session, from stored sessions alone.

    ``share_now`` is how much of the variance of one run is left in that session's value.
    """
    found = _expected(share_now, stored, prior)
    return Spread(se=found.se, df=found.df)


def expected_alarm(
    share_now: float, stored: Sequence[SessionValue], prior: Prior
) -> tuple[Spread, ...]:
    """Return the spreads that a slowdown of such a session must exceed to be an alarm."""
    found = _expected(share_now, stored, prior)
    believed = Spread(se=found.se, df=found.df)
    return (believed,) if found.own_alarm is None else (believed, found.own_alarm)


def expected_contrast(
    share_now: float, stored: Sequence[SessionValue], prior: Prior, *, more: int = 0
) -> Contrast:
    """Return the contrast to expect of an unchanged session, from stored sessions alone.

    With ``more`` further sessions stored, that vary as is believed now. What they would teach of
    the machine class (``learn.py``) is left out. Shares are those of ``expected_spread``.
    """
    found = _expected(share_now, stored, prior, more)
    return found if more else replace(found, far=_far((), stored, prior))


def is_new_node(now: Sequence[SessionValue], stored: Sequence[SessionValue]) -> bool:
    """Whether a session ran on a node without stored sessions, though other nodes have some."""
    known = {one.node for one in stored if one.node}
    return bool(known) and not {one.node for one in now if one.node} <= known


def _mean_value(values: Sequence[SessionValue]) -> float:
    return statistics.fmean(one.value for one in values)


def _mean_share(values: Sequence[SessionValue]) -> float:
    return statistics.fmean(one.share for one in values)


def _expected(
    share_now: float, stored: Sequence[SessionValue], prior: Prior, more: int = 0
) -> Contrast:
    runs, _ = run_variance(stored, prior)
    return _contrast(0.0, (), stored, prior, share_now * runs, more=more)


def _contrast(
    shift: float,
    now: Sequence[SessionValue],
    stored: Sequence[SessionValue],
    prior: Prior,
    runs_now: float,
    *,
    more: int = 0,
) -> Contrast:
    """Compare, where the runs of a session of now leave the variance ``runs_now`` in its value.

    ``more``: so many sessions beside the stored ones are taken to vary as is believed.
    """
    runs, _ = run_variance(stored, prior)
    runs_stored = _mean_share(stored) * runs
    sessions = _sessions(now, stored, runs, prior, more)
    new, old = max(1, len(now)), len(stored) + more
    predicted = sessions.prediction(new, old)
    # Fewer or noisier runs than a stored session had make it wider, more of them tighter.
    variance = predicted.amount + (runs_now - runs_stored) / new
    alarm = None
    if sessions.own is not None:
        # With so few values t has no bound: the prior's degrees of freedom stay in it.
        alarm = Spread(
            se=math.sqrt(sessions.own * (1 / new + 1 / old)),
            df=sessions.own_df + prior.session_df,
        )
    return Contrast(
        shift=shift,
        se=math.sqrt(max(variance, _SURE * predicted.amount)),
        df=predicted.df,
        own_alarm=alarm,
    )


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
    """How values of sessions vary."""

    #: Variance of a value within a node, and its degrees of freedom.
    within: float
    df: float
    #: What nodes add to it, and its degrees of freedom; 0 where all sessions ran on one.
    nodes: float
    nodes_df: float
    node_count: int
    #: The variance of the values alone, where it exceeds the prior's beyond chance.
    own: float | None
    own_df: int

    def prediction(self, new: int, old: int) -> _Variance:
        """Return the variance of the mean of ``new`` values less that of ``old`` ones."""
        within = self.within * (1 / new + 1 / old)
        nodes = self.nodes * (1 + 1 / self.node_count)
        return _Variance(amount=within, df=self.df).plus(_Variance(amount=nodes, df=self.nodes_df))


def _sessions(
    now: Sequence[SessionValue],
    stored: Sequence[SessionValue],
    runs: float,
    prior: Prior,
    more: int,
) -> _Sessions:
    """Return how values vary; ``runs`` is the variance between the runs of a session.

    ``more`` values are not measured yet, and are taken to vary as is believed.
    """
    session = prior.session_sd**2
    if not prior.learnt:
        # Where runs are quieter than the prior says, sessions are taken to be quieter as well.
        session *= min(1.0, max(_QUIETEST, runs / prior.run_sd**2))
    by_node = _by_node(stored)
    df = len(stored) - len(by_node) + max(0, len(now) - 1)
    total = sum(map(squares, by_node)) + squares([one.value for one in now])
    own = total / df if df else 0.0
    believed = session + _mean_share(stored) * runs
    within = moderated(believed, prior.session_df, own, df)
    if more:
        own, df = moderated(own, df, within, more), df + more
    nodes, nodes_df = 0.0, prior.node_df + len(by_node) - 1
    if len(by_node) > 1 or is_new_node(now, stored):
        nodes = moderated(
            prior.node_sd**2, prior.node_df, _between_nodes(by_node, within), len(by_node) - 1
        )
    return _Sessions(
        within=within,
        df=prior.session_df + df,
        nodes=nodes,
        nodes_df=nodes_df,
        node_count=len(by_node),
        own=own if is_noisier(own, df, believed) else None,
        own_df=df,
    )


def _by_node(values: Sequence[SessionValue]) -> list[list[float]]:
    """Return the values of each node; all unknown nodes count as one."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for one in values:
        found[one.node].append(one.value)
    return list(found.values())


def _between_nodes(by_node: Sequence[Sequence[float]], within: float) -> float:
    """Return the variance of nodes beyond that of their sessions; 0 for a single node."""
    if len(by_node) < 2:
        return 0.0
    of_means = statistics.variance([statistics.fmean(values) for values in by_node])
    return max(0.0, of_means - within * statistics.fmean(1 / len(values) for values in by_node))
