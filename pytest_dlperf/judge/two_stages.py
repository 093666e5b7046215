"""The two stages of a verdict: stored sessions screen, and pairs of runs decide.

Stored sessions cannot tell the code from what a session adds by itself. What they certify passes;
all else is measured in pairs against the code of the stored session.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import CUT_SHORT, Measurement
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import refusals, sentences
from pytest_dlperf.judge.brief import (
    ACCEPT_IT,
    WORDS,
    ends,
    remedy_of_pairs,
    than_before,
    what_is_worse,
    with_remedy,
)
from pytest_dlperf.judge.creep import is_suspected
from pytest_dlperf.judge.screen import looked
from pytest_dlperf.judge.stats.contrast import Spread, margin
from pytest_dlperf.judge.stats.family import certify_alpha
from pytest_dlperf.judge.stats.priors import ENOUGH_SESSIONS

#: Verdicts that no pair can change: nothing was measured, or there is nothing to compare with.
_WITHOUT_A_LEVEL: Final = frozenset({Verdict.ERROR, Verdict.NOT_RUN, Verdict.NO_BASELINE})


def rule_of_a_stage(rule: Rule) -> Rule:
    """Return ``rule`` for one of two stages: either may pass a case, so each has half of 5 %."""
    return replace(rule, certify_share=1 / 2)


def other_sides(
    case: Case,
    measurement: Measurement,
    judgement: Judgement,
    baseline: Baseline | None,
    rule: Rule,
) -> tuple[Session, ...]:
    """Return the stored sessions with whose code pairs may decide a case, the best first.

    Empty where stored sessions decide. The anchor where the case seems to have crept away from it;
    else the last session. That is enough for a change that stored sessions see at once, and for a
    known slowdown, with which no session is stored, so that the last one is as fixed as an anchor.
    """
    if baseline is None or not _can_be_paired(measurement, judgement, baseline):
        return ()
    is_step = judgement.throughput.verdict in {Verdict.REGRESSED, Verdict.IMPROVED}
    may_creep = case.known is None and not is_step
    anchor = baseline.anchor if may_creep and is_suspected(measurement, baseline, rule) else None
    is_open = _is_open(case, measurement, judgement, baseline, rule)
    last = baseline.level[-1] if is_open else None
    return tuple(session for session in (anchor, last) if session is not None)


def _can_be_paired(measurement: Measurement, judgement: Judgement, baseline: Baseline) -> bool:
    """Whether pairs could answer: not about other work, or other conditions.

    Then the stored number is that of another training.
    """
    if baseline.source.kind != "measured" or not baseline.level:
        return False
    if judgement.verdict in _WITHOUT_A_LEVEL or _is_cut_short(measurement):
        return False
    return not refusals.differs(measurement, baseline) and not refusals.unchecked(measurement)


def _is_open(
    case: Case, measurement: Measurement, judgement: Judgement, baseline: Baseline, rule: Rule
) -> bool:
    """Whether stored sessions left a case open.

    A pass stands where enough sessions are stored, and the case is among them.
    """
    if judgement.verdict not in GOOD:
        return True
    alpha = certify_alpha(rule_of_a_stage(rule), looked(case, measurement))
    return not _is_where_it_was(judgement.throughput, baseline, alpha)


def _is_where_it_was(throughput: Comparison, baseline: Baseline, alpha: float) -> bool:
    """Whether a case is among its stored sessions, and within the tolerance by their spread alone.

    The prior, which the judge adds to it, is that of quieter machines than some are. On a machine
    that became faster, code that became slower looks unchanged, or improved: what is outside of
    the spread in either direction is no pass yet.
    """
    levels = [math.log(statistics.median(one.runs)) for one in baseline.level if one.runs]
    if len(levels) < ENOUGH_SESSIONS or throughput.change is None or throughput.tolerance is None:
        return False
    se = statistics.stdev(levels) * math.sqrt(1 + 1 / len(levels))
    reach = Spread(se=se, df=len(levels) - 1).reach(alpha)
    shift = math.log1p(throughput.change)
    return abs(shift) <= reach < margin(throughput.tolerance) + shift


def _is_cut_short(measurement: Measurement) -> bool:
    return any(problem.code == CUT_SHORT for problem in measurement.problems)


def decided_by_pairs(
    stored: Judgement,
    pairs: Judgement,
    *,
    against: str,
    environment: Sequence[str],
    unknown: str = "",
    measured_by: str = "",
) -> Judgement:
    """Return the verdict of both stages.

    ``stored`` is the judgement by stored sessions, ``pairs`` that of pairs with the code
    ``against``, or that no file of it differs, where none were run. ``environment`` says what else
    than the code changed since that session, in words, ``unknown`` what is not known of it, and
    ``measured_by`` what would measure it. Pairs answer for the code alone: where they find it no
    slower and the environment is another one, the stored sessions still judge that; where it is
    not known, a slowdown that only they see is not judged.
    """
    details = (*_lines(pairs), *_lines(stored))
    has_run = pairs.throughput.change is not None
    if pairs.verdict in GOOD and stored.verdict in GOOD and not has_run:
        return replace(stored, details=details)
    if pairs.verdict in GOOD and stored.verdict not in GOOD:
        is_red = stored.verdict is Verdict.REGRESSED
        if environment:
            remedy = f"{measured_by} measures that" if measured_by else ACCEPT_IT
            first = with_remedy(f"{_of_both(stored, pairs)}; {_some(environment)}", remedy)
            return replace(stored, reason=first, details=details)
        if unknown and (is_red or not has_run):
            first = with_remedy(f"{_of_both(stored, pairs)}; {unknown}", ACCEPT_IT)
            kept = replace(stored, reason=first, details=details)
            return _not_judged(kept) if is_red else kept
    first = f"{_stored(stored)}; side by side with {against} {_beside(stored, pairs)}: "
    first += _conclusion(pairs, stored)
    if pairs.verdict is Verdict.REGRESSED:
        first = with_remedy(first, f"find what changed, or {ACCEPT_IT}")
    if pairs.verdict is Verdict.INCONCLUSIVE:
        first = with_remedy(first, remedy_of_pairs(pairs.throughput))
    return replace(pairs, reason=_with_remarks(first, pairs), details=details)


def decided_by_packages(
    stored: Judgement,
    code: Judgement,
    packages: Judgement,
    *,
    changed: str,
    environment: Sequence[str],
    undo: str,
) -> Judgement:
    """Return the verdict where pairs with other packages follow those of the code.

    ``packages`` is the judgement by pairs with the packages of the stored session, ``changed``
    says which differ, and ``undo`` what installs those of before; ``environment`` is what else
    changed, in words. Where the packages are no slower either, the stored sessions judge the rest.
    """
    seen = f"{_of_both(stored, code)}; {changed}: {_change_of(packages)}"
    details = (*_lines(packages), *_lines(code), *_lines(stored))
    if packages.verdict in GOOD and environment:
        reason = f"{seen}\n{_some(environment)}; {ACCEPT_IT}"
        return replace(stored, reason=reason, details=details)
    first = f"{seen}: {packages.verdict}"
    if len(first.split()) > WORDS:
        first = f"{_worst(stored)}; {changed}: {_change_of(packages)}: {packages.verdict}"
    if packages.verdict is Verdict.REGRESSED:
        first = with_remedy(first, f"{undo}, or {ACCEPT_IT}")
    return replace(packages, reason=_with_remarks(first, packages), details=details)


def with_same_code(stored: Judgement, *, against: str) -> Judgement:
    """Return the verdict on a case whose code and packages are those of the stored session.

    Nothing that could be slower was changed, so that it is never red.
    """
    first = f"{_worst(stored)} with the code and packages of {against}"
    if stored.verdict not in GOOD:
        first = with_remedy(f"{first}: the machine or its settings did it", ACCEPT_IT)
    return replace(
        stored,
        verdict=Verdict.PASSED,
        reason=first,
        details=_lines(stored),
        throughput=stored.throughput.as_refused(Verdict.PASSED),
        metrics={},
    )


def without_pairs(stored: Judgement, why: str) -> Judgement:
    """Return the verdict by stored sessions alone, which says why no pair was possible.

    Of a good one that is a detail.
    """
    words = f"no pairs: {why}"
    if stored.verdict in GOOD:
        return replace(stored, details=(words, *stored.details))
    return replace(stored, reason=f"{stored.reason}\n{words}")


def _lines(judged: Judgement) -> tuple[str, ...]:
    """Return what else is said of one stage: its first line is in that of both."""
    first, *remarks = judged.reason.split("\n")
    return (*(() if judged.details else (first,)), *remarks, *judged.details)


def _with_remarks(first: str, pairs: Judgement) -> str:
    """Return a first line with the remarks of pairs, as that a budget cut them short."""
    return "\n".join([first, *pairs.reason.split("\n")[1:]])


def _not_judged(judged: Judgement) -> Judgement:
    verdict = Verdict.INCOMPARABLE
    return replace(judged, verdict=verdict, throughput=judged.throughput.as_refused(verdict))


def _worst(stored: Judgement) -> str:
    """Return what stored sessions saw: the rate, or what else is red."""
    if stored.verdict is Verdict.REGRESSED and (
        stored.throughput.verdict is not Verdict.REGRESSED or stored.throughput.refused
    ):
        return what_is_worse(stored, Verdict.REGRESSED) or _stored(stored)
    return _stored(stored)


def _stored(stored: Judgement) -> str:
    return than_before(stored.throughput, "stored")


def _beside(stored: Judgement, pairs: Judgement) -> str:
    """Return what pairs saw: of what got worse in the same way as it was seen, no more words."""
    throughput = pairs.throughput
    if pairs.verdict is Verdict.REGRESSED and throughput.verdict is not Verdict.REGRESSED:
        return what_is_worse(pairs, Verdict.REGRESSED) or "worse"
    if throughput.change is None:
        return "not compared"
    words = sentences.change(throughput.change)
    is_plain = pairs.verdict is Verdict.REGRESSED or (stored.throughput.change or 0.0) < 0
    if words.endswith("slower") and is_plain:
        words = words.removesuffix(" slower")
    return words if throughput.interval is None else f"{words} {ends(throughput)}"


def _of_both(stored: Judgement, code: Judgement) -> str:
    """Return that the code is not the cause of a slowdown, with what pairs of it showed."""
    change = code.throughput.change
    if change is None:
        return f"{_worst(stored)}; the code is the same"
    beside = f"side by side {sentences.signed(change)}"
    return f"{_worst(stored)}; the code is not the cause ({beside})"


def _change_of(pairs: Judgement) -> str:
    change = pairs.throughput.change
    is_other = pairs.throughput.verdict is not Verdict.REGRESSED
    if pairs.verdict is Verdict.REGRESSED and is_other:
        worse = what_is_worse(pairs, Verdict.REGRESSED)
        if worse:
            return worse
    return "not compared" if change is None else sentences.change(change)


def _some(environment: Sequence[str]) -> str:
    """Return the first of what changed; the results have all."""
    more = f" and {len(environment) - 1} more" if len(environment) > 1 else ""
    return environment[0] + more


def _conclusion(pairs: Judgement, stored: Judgement) -> str:
    if pairs.verdict in GOOD and stored.throughput.verdict is Verdict.REGRESSED:
        return f"{pairs.verdict}; the machine did the rest"
    return f"{pairs.verdict}"
