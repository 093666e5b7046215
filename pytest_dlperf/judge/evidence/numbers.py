"""Plain rates, without a case: sessions of runs, or pairs of runs.

There is a single look at them, as no further runs can be launched.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.verdict import TOLERANCE, Comparison, Rule, Verdict
from pytest_dlperf.judge.compare import comparison_of
from pytest_dlperf.judge.evidence import Evidence, Kind
from pytest_dlperf.judge.screen import ONE_LOOK
from pytest_dlperf.judge.sides import Sides, check_rates, session_value
from pytest_dlperf.judge.stats.contrast import Contrast, SessionValue, margin
from pytest_dlperf.judge.stats.paired import contrast_of, pairs_of, with_shown_rates
from pytest_dlperf.judge.stats.priors import NUMBERS, PAIRS
from pytest_dlperf.judge.stats.runs_needed import pairs_needed, stored_runs_needed
from pytest_dlperf.judge.stats.stored import contrast


@dataclass(frozen=True, kw_only=True, slots=True)
class Numbers:
    """One side: the rates of the runs of each session, in ``unit`` a second where it is known."""

    name: str
    unit: str
    sessions: tuple[tuple[float, ...], ...]

    @property
    def rates(self) -> tuple[float, ...]:
        """Every run, in order."""
        return tuple(rate for session in self.sessions for rate in session)

    @property
    def values(self) -> tuple[SessionValue, ...]:
        """Each session's value."""
        return tuple(session_value(session) for session in self.sessions)


def evidence_of_numbers(before: Numbers, now: Numbers, rule: Rule) -> Evidence:
    """Return the sessions of ``now`` beside those of ``before``.

    Raises ``UsageError`` for a side without runs, and ``CaseError`` for a rate that is not a
    positive finite number.
    """
    evidence = _two_sides(before, now, rule)
    if evidence.differences:
        return evidence
    sides = Sides(now=now.values[-1], stored=before.values, prior=NUMBERS)
    shift = contrast(now.values, before.values, sides.prior)
    tolerance = _tolerance(rule)
    compared = replace(
        comparison_of(shift, tolerance, rule, ONE_LOOK),
        now=_mean(now.values),
        before=_mean(before.values),
        provisional=len(before.sessions) == 1,
    )
    if compared.verdict is Verdict.INCONCLUSIVE and len(now.sessions) == 1:
        needed = stored_runs_needed(sides, shift, margin(tolerance), rule, ONE_LOOK)
        compared = replace(compared, runs_needed=needed)
    return _with_rate(evidence, compared, shift)


def evidence_of_number_pairs(before: Numbers, now: Numbers, rule: Rule) -> Evidence:
    """Return pairs of rates: run i of ``now`` was measured next to run i of ``before``.

    Raises ``UsageError`` where the numbers of runs differ or are 0, and ``CaseError`` for a rate
    that is not a positive finite number.
    """
    evidence = _two_sides(before, now, rule)
    if evidence.differences:
        return evidence
    if len(before.rates) != len(now.rates):
        raise UsageError(
            f"{before.name} has {len(before.rates)} runs and {now.name} {len(now.rates)}: pairs "
            "need the same number on both sides, in the order in which they were measured"
        )
    logs_now, logs_before = ([math.log(rate) for rate in side.rates] for side in (now, before))
    prior, pairs = PAIRS["gpu"], pairs_of(logs_now, logs_before)
    shift = contrast_of(pairs, prior)
    tolerance = _tolerance(rule)
    compared = with_shown_rates(comparison_of(shift, tolerance, rule, ONE_LOOK), before.rates)
    if compared.verdict is Verdict.INCONCLUSIVE:
        needed = pairs_needed(pairs, prior, tolerance, rule, ONE_LOOK)
        compared = replace(compared, runs_needed=needed)
    return _with_rate(evidence, compared, shift)


def _two_sides(before: Numbers, now: Numbers, rule: Rule) -> Evidence:
    for side in (before, now):
        if not side.rates:
            raise UsageError(f"{side.name} has no runs")
        check_rates(side.rates, side.name)
    differs = before.unit and now.unit and before.unit != now.unit
    units = f"{now.name} counts {now.unit}, {before.name} {before.unit}"
    return Evidence(
        kind=Kind.NUMBERS,
        rule=rule,
        unit=(now.unit or before.unit).removesuffix("/s") or "samples",
        throughput=statistics.median(now.rates),
        against=before.name,
        differences=(units,) if differs else (),
    )


def _with_rate(evidence: Evidence, compared: Comparison, shift: Contrast) -> Evidence:
    return replace(evidence, comparisons={"throughput": compared}, contrast=shift)


def _tolerance(rule: Rule) -> float:
    return TOLERANCE if rule.tolerance is None else rule.tolerance


def _mean(values: Sequence[SessionValue]) -> float:
    return math.exp(statistics.fmean(value.value for value in values))
