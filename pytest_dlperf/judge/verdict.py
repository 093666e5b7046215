"""Judges evidence: findings, then the verdict, then words; and again where more is learnt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.finding import FigureValue, Finding, Weight, known_figures
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import Comparison, Judgement, Prior, Rule, Verdict
from pytest_dlperf.judge.decide import TABLE, decide, refusal
from pytest_dlperf.judge.evidence import Evidence
from pytest_dlperf.judge.evidence.logs import LogSide, evidence_of_logs
from pytest_dlperf.judge.evidence.numbers import (
    Numbers,
    evidence_of_number_pairs,
    evidence_of_numbers,
)
from pytest_dlperf.judge.evidence.pairs import evidence_of_pairs
from pytest_dlperf.judge.evidence.sessions import evidence_of_sessions
from pytest_dlperf.judge.findings import findings_in
from pytest_dlperf.judge.stats.priors import LOGS
from pytest_dlperf.judge.words.options import PYTEST, Options
from pytest_dlperf.judge.words.sentence import SAYS, words_of

#: Code of the finding that an update was refused.
NOT_STORED: Final = "not-stored"
#: The weight of what is known of a verdict by its words alone.
_WEIGHTS: Final = {verdict: weight for weight, verdict in TABLE.items()}


def judge(
    case: Case, measurement: Measurement, baseline: Baseline | None, rule: Rule
) -> Judgement:
    """Return the verdict on a measurement against its stored sessions.

    Raises ``CaseError`` for measured or stored rates that are not positive finite numbers.
    """
    return judged(evidence_of_sessions(case, measurement, baseline, rule))


def judge_pairs(
    case: Case,
    now: Measurement,
    before: Measurement,
    rule: Rule,
    *,
    varied: Collection[str] = (),
    against: str = "the other arm",
) -> Judgement:
    """Return the verdict on pairs of runs; ``evidence_of_pairs`` has the arguments and errors."""
    return judged(evidence_of_pairs(case, now, before, rule, varied=varied, against=against))


def judge_logs(before: LogSide, now: LogSide, rule: Rule, *, prior: Prior = LOGS) -> Judgement:
    """Return the verdict on the training of ``now`` against that of ``before``, by their logs.

    The sides must be the same training: another world size, batch, precision or unit is
    ``incomparable``, and so is a log that contradicts itself there. A training that failed, by its
    log, is an ``error``. Raises ``CaseError`` for a rate that is not a positive finite number.
    """
    return judged(evidence_of_logs(before, now, rule, prior=prior))


def judge_numbers(before: Numbers, now: Numbers, rule: Rule) -> Judgement:
    """Return the verdict on plain rates; ``evidence_of_numbers`` has the errors."""
    return judged(evidence_of_numbers(before, now, rule))


def judge_number_pairs(before: Numbers, now: Numbers, rule: Rule) -> Judgement:
    """Return the verdict on pairs of rates; ``evidence_of_number_pairs`` has the errors."""
    return judged(evidence_of_number_pairs(before, now, rule))


def judged(evidence: Evidence) -> Judgement:
    """Return the verdict on evidence.

    A change that is not judged is shown all the same, as ``refused``.
    """
    findings = findings_in(evidence)
    refusing = refusal(findings)
    rate, comparisons = evidence.rate, dict(evidence.comparisons)
    comparisons.pop("throughput", None)
    if refusing is not None:
        facts = {finding.metric for finding in findings if finding.weight is Weight.FACT}
        comparisons = {
            name: comparison for name, comparison in comparisons.items() if name in facts
        }
        verdict = TABLE[refusing.weight]
        rate = (
            Comparison(now=evidence.throughput, verdict=verdict)
            if rate is None
            else rate.as_refused(verdict)
        )
    return judgement_by(findings, throughput=rate or Comparison(), metrics=comparisons)


def judgement_by(
    findings: tuple[Finding, ...],
    *,
    throughput: Comparison | None = None,
    metrics: Mapping[str, Comparison] | None = None,
) -> Judgement:
    """Return the judgement that findings make."""
    words = words_of(findings, PYTEST)
    return Judgement(
        verdict=decide(findings),
        reason=words.reason,
        details=words.details,
        findings=findings,
        throughput=throughput or Comparison(),
        metrics=metrics or {},
    )


def plain_judgement(
    verdict: Verdict, text: str, *, code: str = "", throughput: Comparison | None = None
) -> Judgement:
    """Return a judgement that no figures make: an error, or why a case was not measured.

    ``code`` is the verdict's own where none is given.
    """
    finding = Finding(code=code or verdict.value, weight=_WEIGHTS[verdict], figures={SAYS: text})
    return judgement_by((finding,), throughput=throughput)


def findings_of(judgement: Judgement) -> tuple[Finding, ...]:
    """Return the findings of a judgement; of one from a former file its words are one."""
    if judgement.findings:
        return judgement.findings
    figures = {SAYS: judgement.reason, "detail": "\n".join(judgement.details)}
    verdict = judgement.verdict
    return (Finding(code=verdict.value, weight=_WEIGHTS[verdict], figures=known_figures(figures)),)


def with_finding(
    judgement: Judgement,
    code: str,
    weight: Weight = Weight.NOTE,
    **figures: FigureValue | None,
) -> Judgement:
    """Return a judgement to which a finding was added: it is decided, and worded, again."""
    finding = Finding(code=code, weight=weight, figures=known_figures(figures))
    return with_findings(judgement, finding)


def with_findings(judgement: Judgement, *findings: Finding) -> Judgement:
    """Return a judgement to which findings were added: it is decided, and worded, again."""
    return reworded(
        replace(judgement, findings=(*findings_of(judgement), *findings)), options=PYTEST
    )


def without_findings(judgement: Judgement, codes: Collection[str]) -> Judgement:
    """Return a judgement without findings of these codes, decided and worded again."""
    if not any(finding.code in codes for finding in judgement.findings):
        return judgement
    kept = tuple(finding for finding in judgement.findings if finding.code not in codes)
    return reworded(replace(judgement, findings=kept), options=PYTEST)


def reworded(judgement: Judgement, *, options: Options) -> Judgement:
    """Return a judgement in words that name the options of another command."""
    if not judgement.findings:
        return judgement
    words = words_of(judgement.findings, options)
    return replace(
        judgement,
        verdict=decide(judgement.findings),
        reason=words.reason,
        details=words.details,
    )
