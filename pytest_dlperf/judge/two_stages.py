"""The two stages of a verdict: stored sessions screen, and pairs of runs decide.

Stored sessions cannot tell the code from what a session adds by itself. What they certify passes;
all else is measured in pairs against the code of the stored session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import CUT_SHORT, Measurement
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import refusals, sentences
from pytest_dlperf.judge.comparisons import given_tolerance

#: The slowdown up to which a case passes, where none is given.
TOLERANCE: Final = 0.05
#: From so many stored sessions on, their spread shows how far sessions differ.
ENOUGH_SESSIONS: Final = 3
#: Verdicts that no pair can change: nothing was measured, or there is nothing to compare with.
_WITHOUT_A_LEVEL: Final = frozenset({Verdict.ERROR, Verdict.NOT_RUN, Verdict.NO_BASELINE})


def screening_rule(case: Case, baseline: Baseline | None, rule: Rule) -> Rule:
    """Return ``rule`` with the tolerance of both stages: the given one, else 5 %."""
    given = rule.tolerance if baseline is None else given_tolerance(case, baseline, rule)
    given = case.tolerance if given is None else given
    return replace(rule, tolerance=TOLERANCE if given is None else given)


def needs_pairs(
    case: Case,
    measurement: Measurement,
    judgement: Judgement,
    baseline: Baseline | None,
    rule: Rule,
) -> bool:
    """Return whether pairs are to decide what stored sessions left open.

    ``rule`` is the session's own, before ``screening_rule``. A pass stands once enough sessions
    are stored, or where a tolerance was given. Other work, or other conditions, are no question
    to pairs: the stored number is that of another training.
    """
    if baseline is None or baseline.source.kind != "measured" or not baseline.level:
        return False
    if judgement.verdict in _WITHOUT_A_LEVEL or _is_cut_short(measurement):
        return False
    if refusals.differs(measurement, baseline) or refusals.unchecked(measurement):
        return False
    if judgement.verdict not in GOOD:
        return True
    is_given = given_tolerance(case, baseline, rule) is not None
    return not is_given and len(baseline.level) < ENOUGH_SESSIONS


def _is_cut_short(measurement: Measurement) -> bool:
    return any(problem.code == CUT_SHORT for problem in measurement.problems)


def decided_by_pairs(
    stored: Judgement, pairs: Judgement, *, against: str, environment: Sequence[str]
) -> Judgement:
    """Return the verdict of both stages.

    ``stored`` is the judgement by stored sessions, ``pairs`` that of pairs with the code
    ``against``; ``environment`` says what else than the code changed since that session, in words.
    Pairs answer for the code alone: where they find it no slower and the environment is another
    one, the stored sessions still judge that.
    """
    both = f"{_than_stored(stored.throughput)}; side by side with {against} {_beside(pairs)}"
    if pairs.verdict in GOOD and environment and stored.verdict not in GOOD:
        reason = (
            f"{both}: the code is not the cause; {', '.join(environment)} changed\n"
            f"{stored.reason}\n{pairs.reason}"
        )
        return replace(stored, reason=reason)
    reason = f"{both}: {_conclusion(pairs, stored)}\n{pairs.reason}\n{stored.reason}"
    return replace(pairs, reason=reason)


def with_same_code(stored: Judgement, *, against: str) -> Judgement:
    """Return the verdict on a case whose code and packages are those of the stored session.

    Nothing that could be slower was changed, so that it is never red.
    """
    reason = f"{_than_stored(stored.throughput)}, with the code and packages of {against}"
    if stored.verdict not in GOOD:
        reason += (
            ": the machine or its settings did it; store a session as it is now with "
            "--update-baselines"
        )
    return replace(
        stored,
        verdict=Verdict.PASSED,
        reason=f"{reason}\n{stored.reason}",
        throughput=stored.throughput.as_refused(Verdict.PASSED),
        metrics={},
    )


def without_pairs(stored: Judgement, why: str) -> Judgement:
    """Return the verdict by stored sessions alone, which says why no pair was possible."""
    return replace(stored, reason=f"{stored.reason}\nno pairs: {why}")


def _than_stored(found: Comparison) -> str:
    if found.change is None:
        return "not compared with stored sessions"
    return f"{sentences.change(found.change)} than stored".replace(
        "unchanged than stored", "as fast as stored"
    )


def _beside(pairs: Judgement) -> str:
    found = pairs.throughput
    if found.change is None or found.interval is None:
        return "not compared"
    low, high = (sentences.signed(end) for end in found.interval)
    return f"{sentences.change(found.change)} ({low} to {high})"


def _conclusion(pairs: Judgement, stored: Judgement) -> str:
    if pairs.verdict is Verdict.REGRESSED:
        return f"regressed; find what changed, or {sentences.ACCEPT_LEVEL}"
    if pairs.verdict in GOOD and stored.verdict not in GOOD:
        return f"{pairs.verdict}; the machine or its settings did the rest"
    return f"{pairs.verdict}"
