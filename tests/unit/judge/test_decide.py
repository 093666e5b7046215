"""The table of verdicts: what decides, in which order, and which findings count."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Final

import pytest

from pytest_dlperf.core.finding import (
    BUDGET_SPENT,
    DECIDED_BY,
    REFUSING,
    FigureValue,
    Finding,
    Weight,
    counting,
)
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.judge.decide import TABLE, decide, refusal

#: The verdict of each weight, the first to decide first.
ORDER: Final = (
    (Weight.ERROR, Verdict.ERROR),
    (Weight.NOT_RUN, Verdict.NOT_RUN),
    (Weight.DIFFERENT, Verdict.INCOMPARABLE),
    # No machine, and no drifting step, explains it
    (Weight.FACT, Verdict.REGRESSED),
    (Weight.MACHINE, Verdict.INCOMPARABLE),
    (Weight.DOUBT, Verdict.UNSTEADY),
    (Weight.STORED, Verdict.PASSED),
    (Weight.UNSTORED, Verdict.NO_BASELINE),
    # A faster case whose speedup fell is red
    (Weight.RED, Verdict.REGRESSED),
    (Weight.OPEN, Verdict.INCONCLUSIVE),
    (Weight.BETTER, Verdict.IMPROVED),
    (Weight.GREEN, Verdict.PASSED),
)
#: Every weight has its place; what is only said is the last of all.
PLACES: Final = {weight: place for place, (weight, _) in enumerate(ORDER)} | {
    Weight.NOTE: len(ORDER)
}
VERDICTS: Final = dict(ORDER)


def finding(weight: Weight, *, stage: str = "", **figures: FigureValue) -> Finding:
    return Finding(code=f"a-{weight}", weight=weight, stage=stage, figures=figures)


def verdict_of(weight: Weight) -> Verdict:
    return VERDICTS.get(weight, Verdict.INCONCLUSIVE)


def test_every_weight_has_one_verdict_and_every_verdict_a_weight() -> None:
    assert tuple(TABLE.items()) == ORDER
    assert [weight for weight in Weight if weight in TABLE] == list(TABLE)
    assert set(TABLE) | {Weight.NOTE} == set(Weight)
    assert set(TABLE.values()) == set(Verdict)


def test_the_document_has_the_rows_of_the_table_in_its_order() -> None:
    page = Path(__file__).parents[3] / "docs/verdicts.md"
    table = page.read_text(encoding="utf-8").partition("## The table\n")[2].partition("\n## ")[0]
    rows = [row.split("`")[1] for row in table.splitlines() if row.startswith("| `")]
    assert rows == [TABLE[weight].value for weight in Weight if weight in TABLE]


@pytest.mark.parametrize("weight", list(Weight))
def test_one_finding_decides_by_its_weight(weight: Weight) -> None:
    assert decide([finding(weight)]) is verdict_of(weight)


def test_without_a_finding_nothing_is_shown() -> None:
    assert decide([]) is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("one", list(Weight))
def test_of_two_findings_the_first_of_the_table_decides(one: Weight) -> None:
    for other in Weight:
        stronger = min(one, other, key=PLACES.__getitem__)
        for pair in permutations([finding(one), finding(other)]):
            assert decide(pair) is verdict_of(stronger), other


@pytest.mark.parametrize("one", list(Weight))
def test_of_two_stages_the_one_that_decides_counts(one: Weight) -> None:
    by_pairs, by_stored = (finding(Weight.NOTE, **{DECIDED_BY: x}) for x in ("pairs", "stored"))
    for other in Weight:
        stages = [finding(one, stage="pairs"), finding(other, stage="stored")]
        assert decide([by_pairs, *stages]) is verdict_of(one), other
        assert decide([*stages[::-1], by_pairs]) is verdict_of(one), other
        assert decide([by_stored, *stages]) is verdict_of(other), other


@pytest.mark.parametrize("one", list(Weight))
def test_what_is_of_no_stage_counts_beside_the_one_that_decides(one: Weight) -> None:
    stored = finding(Weight.ERROR, stage="stored")
    for other in Weight:
        lead = finding(other, **{DECIDED_BY: "pairs"})
        stronger = min(one, other, key=PLACES.__getitem__)
        assert decide([lead, finding(one, stage="pairs"), stored]) is verdict_of(stronger), other


@pytest.mark.parametrize("weight", list(Weight))
def test_where_no_stage_decides_none_of_them_counts(weight: Weight) -> None:
    staged = finding(weight, stage="stored")
    assert counting([staged]) == ()
    assert decide([finding(Weight.GREEN), staged]) is Verdict.PASSED


def budget(**figures: FigureValue) -> Finding:
    return Finding(code=BUDGET_SPENT, weight=Weight.NOTE, figures=figures)


@pytest.mark.parametrize("weight", list(Weight))
def test_what_was_to_be_confirmed_is_open_where_no_time_was_left(weight: Weight) -> None:
    is_taken_back = weight in {Weight.RED, Weight.FACT}
    found = decide([finding(weight), budget(unconfirmed=True)])
    assert found is (Verdict.INCONCLUSIVE if is_taken_back else verdict_of(weight))
    assert decide([finding(weight), budget()]) is verdict_of(weight)
    count = finding(weight, is_count=True)
    assert decide([count, budget(unconfirmed=True)]) is verdict_of(weight), "one run shows it"


def test_what_is_not_confirmed_hides_nothing_stronger() -> None:
    unconfirmed = [finding(Weight.FACT), budget(unconfirmed=True)]
    for weight in (Weight.ERROR, Weight.DIFFERENT, Weight.MACHINE, Weight.DOUBT):
        assert decide([*unconfirmed, finding(weight)]) is verdict_of(weight)
    # What is open is no improvement either
    assert decide([*unconfirmed, finding(Weight.BETTER)]) is Verdict.INCONCLUSIVE


def test_a_budget_that_ended_in_one_stage_takes_nothing_back_in_another() -> None:
    lead = replace(finding(Weight.NOTE), figures={DECIDED_BY: "pairs"})
    spent = replace(budget(unconfirmed=True), stage="stored")
    red = finding(Weight.RED, stage="pairs")
    assert decide([lead, red, spent]) is Verdict.REGRESSED
    assert decide([lead, red, replace(spent, stage="pairs")]) is Verdict.INCONCLUSIVE


def test_what_forbids_to_judge_is_the_strongest_that_does() -> None:
    for pair in product(Weight, Weight):
        refusing = sorted((one for one in pair if one in REFUSING), key=PLACES.__getitem__)
        found = refusal(map(finding, pair))
        assert (found and found.weight) == (refusing[0] if refusing else None)
    first, second = (replace(finding(Weight.DOUBT), code=code) for code in "ab")
    assert refusal([finding(Weight.RED), first, second]) is first
