"""The two stages of a verdict: stored sessions screen, and pairs of runs decide.

Stored sessions cannot tell the code from what a session adds by itself. What they certify passes;
all else is measured in pairs against the code of the stored session.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.finding import (
    DECIDED_BY,
    FigureValue,
    Finding,
    Weight,
    findings_in_stage,
    known_figures,
)
from pytest_dlperf.core.measurement import CUT_SHORT, Measurement
from pytest_dlperf.core.quantity import signed
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge.creep import is_suspected
from pytest_dlperf.judge.screen import looked
from pytest_dlperf.judge.stats.contrast import Spread, margin
from pytest_dlperf.judge.stats.family import certify_alpha
from pytest_dlperf.judge.stats.priors import ENOUGH_SESSIONS
from pytest_dlperf.judge.verdict import findings_of, judgement_by, with_finding
from pytest_dlperf.judge.words.first_line import RED, metric_in_brief
from pytest_dlperf.judge.words.phrases import change, change_than, ends

#: Verdicts that no pair can change: nothing was measured, or there is nothing to compare with.
_WITHOUT_A_LEVEL: Final = frozenset({Verdict.ERROR, Verdict.NOT_RUN, Verdict.NO_BASELINE})
#: Findings that no pair can change: the stored number is that of another training.
_OTHER_WORK: Final = frozenset({"conditions-differ", "work-unchecked"})


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
    alpha = certify_alpha(rule_of_a_stage(rule), looked(case, measurement))
    is_open = _is_open(judgement, baseline, alpha)
    last = baseline.level[-1] if is_open else None
    return tuple(session for session in (anchor, last) if session is not None)


def _can_be_paired(measurement: Measurement, judgement: Judgement, baseline: Baseline) -> bool:
    """Return whether pairs could answer: not about other work, or other conditions."""
    if baseline.source.kind != "measured" or not any(one.runs for one in baseline.level):
        return False
    if judgement.verdict in _WITHOUT_A_LEVEL or _is_cut_short(measurement):
        return False
    return not any(finding.code in _OTHER_WORK for finding in judgement.findings)


def _is_open(judgement: Judgement, baseline: Baseline, alpha: float) -> bool:
    """Return whether stored sessions left a case open.

    A pass stands where enough sessions are stored, and the case is among them.
    """
    if judgement.verdict not in GOOD:
        return True
    return not _is_where_it_was(judgement.throughput, baseline, alpha)


def _is_where_it_was(throughput: Comparison, baseline: Baseline, alpha: float) -> bool:
    """Return whether a case is among its stored sessions, and within the tolerance by these.

    The prior, which the judge adds to it, is that of quieter machines than some are. On a machine
    that became faster, code that became slower looks unchanged, or improved: what is outside of
    the spread in either direction is no pass yet.
    """
    levels = [math.log(statistics.median(known.runs)) for known in baseline.level if known.runs]
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
    stages = (("pairs", pairs), ("stored", stored))
    has_run = pairs.throughput.change is not None
    if pairs.verdict in GOOD and stored.verdict in GOOD and not has_run:
        return with_finding(stored, "equal-code", text=pairs.reason)
    if pairs.verdict in GOOD and stored.verdict not in GOOD:
        is_red = stored.verdict is Verdict.REGRESSED
        change_words = _change_beside_code(stored, pairs)
        if environment:
            changed = {
                "seen": change_words,
                "environment": _first_change(environment),
                "measured_by": measured_by,
                DECIDED_BY: "stored",
            }
            return _decided(_lead("environment-changed", changed), stored, stages)
        if unknown and (is_red or not has_run):
            weight = Weight.DIFFERENT if is_red else Weight.NOTE
            not_known = {"seen": change_words, "unknown": unknown, DECIDED_BY: "stored"}
            return _decided(_lead("packages-unknown", not_known, weight), stored, stages)
    rate = pairs.throughput
    did_rest = pairs.verdict in GOOD and stored.throughput.verdict is Verdict.REGRESSED
    figures = {
        "seen": _change_seen(stored),
        "against": against,
        "beside": _beside(stored, pairs),
        "verdict": str(pairs.verdict),
        "machine_did_the_rest": did_rest or None,
        "kind": "pairs",
        "runs_needed": rate.runs_needed,
        "adaptive": _is_adaptive(pairs) or None,
        DECIDED_BY: "pairs",
    }
    return _decided(_lead("pairs-decided", figures), pairs, stages)


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
    stages = (("packages", packages), ("pairs", code), ("stored", stored))
    figures: dict[str, FigureValue | None] = {
        "seen": _change_beside_code(stored, code),
        "packages": changed,
        "beside": _change_by_packages(packages),
    }
    if packages.verdict in GOOD and environment:
        figures |= {"environment": _first_change(environment), DECIDED_BY: "stored"}
        return _decided(_lead("environment-changed", figures), stored, stages)
    figures |= {
        "seen_by_stored": _worst(stored),
        "verdict": str(packages.verdict),
        "undo": undo,
        DECIDED_BY: "packages",
    }
    return _decided(_lead("packages-decided", figures), packages, stages)


def same_code_judgement(stored: Judgement, *, against: str) -> Judgement:
    """Return the verdict on a case whose code and packages are those of the stored session.

    Nothing that could be slower was changed, so that it is never red.
    """
    figures = {
        "seen": _worst(stored),
        "against": against,
        "machine_did_it": stored.verdict not in GOOD or None,
    }
    lead = _lead("same-code", figures, Weight.GREEN)
    decided = _decided(lead, stored, (("stored", stored),))
    return replace(decided, throughput=stored.throughput.as_refused(Verdict.PASSED), metrics={})


def judgement_without_pairs(
    stored: Judgement, why: str, *, details: Sequence[str] = ()
) -> Judgement:
    """Return the verdict by stored sessions alone, which says why no pair was possible.

    Of a good one that is a detail; ``details`` are those of an arm that failed.
    """
    is_detail = stored.verdict in GOOD or None
    decided = with_finding(stored, "no-pairs", text=why, is_detail=is_detail)
    return with_finding(decided, "arm-failed", text="\n".join(details)) if details else decided


def _lead(
    code: str, figures: Mapping[str, FigureValue | None], weight: Weight = Weight.NOTE
) -> Finding:
    return Finding(code=code, weight=weight, figures=known_figures(figures))


def _decided(
    lead: Finding, deciding: Judgement, stages: Sequence[tuple[str, Judgement]]
) -> Judgement:
    """Return the judgement with what each stage found; ``deciding`` has the comparisons."""
    findings = [
        finding
        for name, judgement in stages
        for finding in findings_in_stage(findings_of(judgement), name)
    ]
    decided = judgement_by(
        (lead, *findings), throughput=deciding.throughput, metrics=deciding.metrics
    )
    if lead.weight is Weight.DIFFERENT:
        rate = deciding.throughput.as_refused(decided.verdict)
        return replace(decided, throughput=rate)
    return decided


def _is_adaptive(pairs: Judgement) -> bool:
    return any(finding.figures.get("adaptive") for finding in pairs.findings)


def _worst(stored: Judgement) -> str:
    """Return what stored sessions saw: the rate, or what else is red."""
    is_refused = stored.verdict is Verdict.REGRESSED and stored.throughput.refused
    is_beside = _is_red_beside_rate(stored) or is_refused
    return (metric_in_brief(stored.findings, RED) if is_beside else "") or _change_seen(stored)


def _change_seen(stored: Judgement) -> str:
    rate = stored.throughput
    if rate.change is None:
        return "not compared with stored sessions"
    return change_than(rate.change, "stored")


def _beside(stored: Judgement, pairs: Judgement) -> str:
    """Return what pairs saw: of what got worse in the same way as it was seen, no more words."""
    rate = pairs.throughput
    if _is_red_beside_rate(pairs):
        return metric_in_brief(pairs.findings, RED) or "worse"
    if rate.change is None:
        return "not compared"
    words = change(rate.change)
    is_plain = pairs.verdict is Verdict.REGRESSED or (stored.throughput.change or 0.0) < 0
    if words.endswith("slower") and is_plain:
        words = words.removesuffix(" slower")
    return words if rate.interval is None else f"{words} {ends(*rate.interval)}"


def _change_beside_code(stored: Judgement, code: Judgement) -> str:
    """Return that the code is not the cause of a slowdown, with what pairs of it showed."""
    beside = code.throughput.change
    if beside is None:
        return f"{_worst(stored)}; the code is the same"
    return f"{_worst(stored)}; the code is not the cause (side by side {signed(beside)})"


def _change_by_packages(pairs: Judgement) -> str:
    worse = metric_in_brief(pairs.findings, RED) if _is_red_beside_rate(pairs) else ""
    value = pairs.throughput.change
    return worse or ("not compared" if value is None else change(value))


def _is_red_beside_rate(judgement: Judgement) -> bool:
    is_red = judgement.verdict is Verdict.REGRESSED
    return is_red and judgement.throughput.verdict is not Verdict.REGRESSED


def _first_change(environment: Sequence[str]) -> str:
    """Return the first of what changed; the results have all."""
    more = f" and {len(environment) - 1} more" if len(environment) > 1 else ""
    return environment[0] + more
