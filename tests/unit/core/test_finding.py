"""Which finding decided a verdict, and what readers of results are told of it."""

from __future__ import annotations

import json

import pytest

from pytest_dlperf.core.finding import BUDGET_SPENT, DECIDED_BY, Finding, Weight, deciding
from pytest_dlperf.core.outcome import outcome_from_json, outcome_to_json
from pytest_dlperf.core.verdict import Judgement, Verdict
from tests.helpers.report_builders import case, confirmed, decided, measured

PASSED = Finding(code="within-tolerance", weight=Weight.GREEN, metric="throughput")
SLOWER = Finding(code="slower", weight=Weight.RED, metric="throughput")
MEMORY = Finding(code="worse", weight=Weight.FACT, metric="peak_memory")
COUNT = Finding(
    code="worse", weight=Weight.FACT, metric="graph_breaks", figures={"is_count": True}
)
MOVED = Finding(code="machine-moved", weight=Weight.MACHINE)
NOTE = Finding(code="explained", weight=Weight.NOTE)
SPENT = Finding(code=BUDGET_SPENT, weight=Weight.OPEN, figures={"unconfirmed": True})


def staged(finding: Finding, stage: str) -> Finding:
    return Finding(code=finding.code, weight=finding.weight, metric=finding.metric, stage=stage)


@pytest.mark.parametrize(
    ("findings", "code", "codes"),
    [
        ((), "", ()),
        ((NOTE,), "", ("explained",)),
        ((NOTE, PASSED), "within-tolerance", ("within-tolerance", "explained")),
        ((PASSED, MEMORY), "worse:peak_memory", ("worse:peak_memory", "within-tolerance")),
        ((MOVED, SLOWER, COUNT), "worse:graph_breaks",
         ("worse:graph_breaks", "machine-moved", "slower")),
        # What fresh runs were to confirm is no cause: the budget is
        ((SLOWER, NOTE, SPENT), BUDGET_SPENT, (BUDGET_SPENT, "slower", "explained")),
        ((COUNT, SLOWER, SPENT), "worse:graph_breaks",
         ("worse:graph_breaks", BUDGET_SPENT, "slower")),
        # Of two stages that which decided
        ((Finding(code="pairs-decided", weight=Weight.NOTE, figures={DECIDED_BY: "pairs"}),
          staged(PASSED, "pairs"), staged(SLOWER, "stored")),
         "within-tolerance", ("within-tolerance", "pairs-decided")),
    ],
)  # fmt: skip
def test_the_strongest_finding_that_counts_decided(
    findings: tuple[Finding, ...], code: str, codes: tuple[str, ...]
) -> None:
    judgement = Judgement(verdict=Verdict.INCONCLUSIVE, reason="so", findings=findings)
    assert (judgement.code, judgement.codes) == (code, codes)
    finding = deciding(findings)
    assert ("" if finding is None else finding.name) == code


def test_a_title_has_a_code_that_says_more_than_the_verdict() -> None:
    def title(verdict: Verdict, *findings: Finding) -> str:
        return Judgement(verdict=verdict, reason="so", findings=findings).title

    assert title(Verdict.REGRESSED, PASSED, MEMORY) == "regressed (worse:peak_memory)"
    assert title(Verdict.PASSED, PASSED) == "passed"
    assert title(Verdict.ERROR, Finding(code="error", weight=Weight.ERROR)) == "error"
    assert title(Verdict.REGRESSED) == "regressed"


def test_results_have_the_codes_and_former_ones_are_read() -> None:
    outcome = confirmed(decided(measured(case(), 100.0)))
    written = json.loads(json.dumps(outcome_to_json(outcome)))
    assert written["judgement"]["code"] == ""  # the words of a former file
    stored = written["confirmation"]["stored"]
    assert stored["code"] == "worse:peak_memory"
    assert stored["codes"] == ["worse:peak_memory", "within-tolerance"]
    assert outcome_from_json(written) == outcome
    for judgement in (written["judgement"], stored):
        del judgement["code"], judgement["codes"], judgement["findings"]
    read = outcome_from_json(written).confirmation
    assert read is not None
    assert (read.stored.findings, read.stored.code) == ((), "")
