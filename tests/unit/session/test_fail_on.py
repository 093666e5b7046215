"""What fails a test: verdicts, codes that count, and which wins."""

from __future__ import annotations

import re

import pytest

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.finding import DECIDED_BY, Finding, Weight
from pytest_dlperf.core.verdict import BAD, NOT_JUDGED, Judgement, KnownState, Verdict
from pytest_dlperf.judge.verdict import judgement_by
from pytest_dlperf.session.fail_on import FailOn

DIFFER = Finding(code="conditions-differ", weight=Weight.DIFFERENT, figures={"kind": "pairs"})
MOVED = Finding(code="machine-moved", weight=Weight.MACHINE)
SLOWER = Finding(code="slower", weight=Weight.RED, metric="throughput")


def judged(*findings: Finding, known: KnownState | None = None) -> Judgement:
    verdict = judgement_by(findings).verdict
    return Judgement(verdict=verdict, reason="so", findings=findings, known=known)


def fails(judgement: Judgement, *names: str) -> bool:
    return FailOn.parse(names).fails(judgement)


def test_a_code_fails_and_another_cause_of_the_same_verdict_does_not() -> None:
    assert judged(DIFFER).verdict is judged(MOVED).verdict is Verdict.INCOMPARABLE
    assert fails(judged(DIFFER), "conditions-differ")
    assert not fails(judged(MOVED), "conditions-differ")
    assert not fails(judged(DIFFER))
    assert fails(judged(MOVED), "incomparable")


def test_a_code_that_counts_fails_though_another_decided() -> None:
    unsteady = Finding(code="estimators-disagree", weight=Weight.DOUBT)
    both = judged(MOVED, unsteady)
    assert (both.code, both.verdict) == ("machine-moved", Verdict.INCOMPARABLE)
    assert fails(both, "estimators-disagree")


def test_a_code_with_a_metric_fails_for_that_one_alone() -> None:
    grown = Finding(code="worse", weight=Weight.FACT, metric="peak_memory")
    assert judged(grown).code == "worse:peak_memory"
    verdict = judged(MOVED, Finding(code="open", weight=Weight.OPEN, metric="step_p95"))
    assert fails(verdict, "open:step_p95")
    assert fails(verdict, "open")
    assert not fails(verdict, "open:other")


def test_a_code_that_does_not_count_fails_nothing() -> None:
    lead = Finding(code="pairs-decided", weight=Weight.NOTE, figures={DECIDED_BY: "pairs"})
    passed = Finding(code="within-tolerance", weight=Weight.GREEN, stage="pairs")
    stored = Finding(code="slower", weight=Weight.RED, stage="stored")
    assert not fails(judged(lead, passed, stored), "slower")
    spent = Finding(code="budget-spent", weight=Weight.NOTE)
    assert not fails(judged(spent, Finding(code="x", weight=Weight.GREEN)), "budget-spent")


def test_a_verdict_s_own_name_is_the_verdict() -> None:
    unsteady = Finding(code="unsteady", weight=Weight.DOUBT)
    assert fails(judged(unsteady), "unsteady")
    assert not fails(judged(MOVED, unsteady), "unsteady")


def test_a_known_slowdown_passes_and_one_that_is_gone_fails() -> None:
    assert not fails(judged(SLOWER, known=KnownState.KNOWN), "slower")
    assert fails(judged(SLOWER, known=KnownState.EXPIRED))
    green = Finding(code="within-tolerance", weight=Weight.GREEN)
    assert fails(judged(green, known=KnownState.GONE))


def test_names_add_to_what_fails() -> None:
    assert FailOn.parse([]) == FailOn(verdicts=BAD, codes=frozenset())
    assert FailOn.parse(["undecided", "no-baseline"]) == FailOn(
        verdicts=BAD | {Verdict.NO_BASELINE}, codes=frozenset({"undecided"})
    )
    assert FailOn.parse(["undecided"], strict=True).verdicts == BAD | NOT_JUDGED


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("condition-differs", "is neither a verdict (error, not-run, "),
        ("condition-differs", "did you mean conditions-differ?"),
        ("inconclusiv", "did you mean inconclusive?"),
        ("garbage", "nor a code (budget-spent, conditions-differ, "),
        ("passed", "fails nothing: it is good"),
        ("faster", "fails nothing: it is good"),
        ("explained", "or a note that counts for nothing"),
        ("worse:", "is neither a verdict"),
        ("wrong:peak_memory", "is neither a verdict"),
    ],
)
def test_another_word_is_wrong_usage_and_close_ones_are_named(name: str, words: str) -> None:
    message = re.escape(f"ini dlperf_fail_on: '{name}' ")
    with pytest.raises(UsageError, match=f"{message}.*{re.escape(words)}"):
        FailOn.parse([name])
