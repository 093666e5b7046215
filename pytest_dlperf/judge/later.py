"""Forecasts what a later session can detect by what is stored now, and what would help."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final, Literal

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.verdict import LaterSession, Prior, Remedy, Rule
from pytest_dlperf.judge.compare import detectable_change
from pytest_dlperf.judge.screen import Spending, spending
from pytest_dlperf.judge.sides import session_value
from pytest_dlperf.judge.stats import family, priors
from pytest_dlperf.judge.stats.contrast import SessionValue, median_cost, squares, undisturbed
from pytest_dlperf.judge.stats.paired import PairedDifferences, contrast_of, likely_variance
from pytest_dlperf.judge.stats.stored import expected_contrast
from pytest_dlperf.judge.tolerance import tolerance_of

#: What leaves more than this share of what is detected with less is not worth its time.
_WORTH: Final = 0.9
#: Times the runs of the protocol that are tried.
_MORE_RUNS: Final = (2, 4)
#: Pairs that are tried where the protocol has a fixed number of runs.
_PAIRS: Final = (5, 10)


def later_session(
    case: Case, baseline: Baseline, rule: Rule, *, kept_sessions: int
) -> LaterSession | None:
    """Return what a session of the protocol of ``case`` can detect by ``baseline``.

    It is taken to be unchanged, and as noisy as is believed now. A baseline keeps
    ``kept_sessions``. None where it has no session of its level.
    """
    stored = [session for session in baseline.level if session.runs]
    if not stored:
        return None
    prior, protocol = priors.prior_of_throughput(case), case.protocol
    values = [session_value(session.runs) for session in stored]

    def seen_with(protocol: Protocol, more: int = 0) -> float:
        spent = spending(protocol, protocol.runs)
        return _detectable(values, prior, rule, protocol, spent, more)

    sees = seen_with(protocol)
    later = LaterSession(
        sees=sees,
        runs=protocol.runs,
        sessions=len(values),
        provisional=len(values) == 1,
        wanted=tolerance_of(case, baseline, rule),
    )
    if sees <= later.wanted:
        return later
    pairs = (protocol.runs, protocol.max_runs) if protocol.adaptive else _PAIRS
    tried = (
        _remedy(
            "sessions",
            range(1, kept_sessions - len(stored) + 1),
            lambda count: seen_with(protocol, count),
            later,
        ),
        _remedy(
            "runs",
            [protocol.runs * times for times in _MORE_RUNS],
            lambda count: seen_with(_fixed(protocol, count)),
            later,
        ),
        _remedy("pairs", pairs, lambda count: _seen_in_pairs(case, stored, rule, count), later),
    )
    return replace(later, remedies=tuple(remedy for remedy in tried if remedy is not None))


def _fixed(protocol: Protocol, runs: int) -> Protocol:
    return replace(protocol, runs=runs, max_runs=max(runs, protocol.max_runs), adaptive=False)


def _detectable(
    values: Sequence[SessionValue],
    prior: Prior,
    rule: Rule,
    protocol: Protocol,
    spent: Spending,
    more: int,
) -> float:
    share = median_cost(protocol.runs) / protocol.runs
    expected = expected_contrast(share, values, prior, further=more)
    return detectable_change(expected, family.throughput_rule(rule), spent)


def _seen_in_pairs(case: Case, stored: Sequence[Session], rule: Rule, count: int) -> float:
    """Return what so many pairs detect, by the spread of the runs of stored sessions.

    Runs of a session follow each other as those of launches that alternate do; in lock-step pairs
    vary less.
    """
    device = case.layout.device
    prior = priors.PAIRS[device]
    rates = [session.estimates.get("median_step", ()) for session in stored]
    if not all(rates):
        rates = [session.runs for session in stored]
    samples = undisturbed(
        [[math.log(rate) for rate in session_rates] for session_rates in rates], prior.run_sd
    )
    df = sum(max(0, len(sample) - 1) for sample in samples)
    own = sum(squares(sample) for sample in samples) / df if df else 0.0
    believed = PairedDifferences(shift=0.0, variance=2 * own, count=df + 1)
    likely = PairedDifferences(shift=0.0, variance=likely_variance(believed, prior), count=count)
    protocol = case.protocol if case.protocol.adaptive else _fixed(case.protocol, count)
    spent = spending(protocol, count, in_pairs=True)
    return detectable_change(contrast_of(likely, prior), family.throughput_rule(rule), spent)


def _remedy(
    what: Literal["sessions", "runs", "pairs"],
    counts: Iterable[int],
    sees: Callable[[int], float],
    now: LaterSession,
) -> Remedy | None:
    """Return the smallest count that detects what is wanted, or nearly what the largest does.

    None if it gains little.
    """
    tried: list[Remedy] = []
    for count in counts:
        tried.append(Remedy(what=what, count=count, sees=sees(count)))
        if tried[-1].sees <= now.wanted:
            break
    if not tried or tried[-1].sees > _WORTH * now.sees:
        return None
    enough = max(now.wanted, tried[-1].sees / _WORTH)
    return next(remedy for remedy in tried if remedy.sees <= enough)
