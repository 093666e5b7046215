"""What was not shown is never advised to be stored: the sentence names what decides instead."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.option_names import command_options
from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.verdict import reworded
from pytest_dlperf.judge.words.metrics import worse_clause
from pytest_dlperf.judge.words.options import PYTEST, Options
from pytest_dlperf.judge.words.rate import undecided
from tests.helpers.judge_builders import around, baseline, case, measurement, session

GPU = case("1n2g")
FIVE = baseline(*(session(around(level)) for level in (99.5, 99.8, 100, 100.2, 100.5)))
ONE = baseline(session(around(100)))
NOISY = baseline(*(session(around(level, 0.2)) for level in (70, 100, 140)))
QUICK = baseline(session(around(100), canary={"matmul": 50.0}))
RULE = Rule(family=24)
TIGHT = replace(RULE, tolerance=0.02)


@pytest.mark.parametrize(
    ("before", "now", "rule", "verdict"),
    [
        (FIVE, measurement(around(96)), RULE, Verdict.INCONCLUSIVE),
        (ONE, measurement(around(97.4)), TIGHT, Verdict.INCONCLUSIVE),
        (FIVE, measurement(around(90), problem="disturbed"), RULE, Verdict.INCOMPARABLE),
        (None, measurement(around(90), problem="disturbed"), RULE, Verdict.INCOMPARABLE),
        (QUICK, measurement(around(85), canary={"matmul": 42.5}), RULE, Verdict.INCOMPARABLE),
        (NOISY, measurement(around(100, 0.2)), RULE, Verdict.INCONCLUSIVE),
    ],
    ids=["open", "open-one-session", "disturbed", "disturbed-at-first", "machine", "noisy"],
)
def test_the_remedy_is_a_comparison_side_by_side(
    before: Baseline | None, now: Measurement, rule: Rule, verdict: Verdict
) -> None:
    judged = judge(GPU, now, before, rule)
    assert judged.verdict is verdict
    is_disturbed = any(finding.code == "disturbed" for finding in judged.findings)
    assert f"--dlperf-against={'main' if is_disturbed else 'REF'}" in judged.text
    assert "--update-baselines" not in judged.text
    assert "as before" not in judged.text or before is not None


@pytest.mark.parametrize(
    "before", [FIVE, ONE, NOISY, QUICK, None], ids=["five", "one", "noisy", "quick", "none"]
)
def test_a_gate_that_others_disturbed_says_in_its_sentence_what_decides(
    before: Baseline | None,
) -> None:
    judged = judge(GPU, measurement(around(90), problem="disturbed"), before, RULE)
    assert judged.reason == (
        "others disturbed its runs; compare in pairs with --dlperf-against=main, or measure again "
        "when the machine is quiet"
    )
    # A command that compares no versions advises none
    words = reworded(judged, options=Options(names=command_options(frozenset()))).reason
    assert words == "others disturbed its runs; measure again when the machine is quiet"


def test_an_interval_without_zero_is_said_to_be_no_alarm_where_it_is_none() -> None:
    judged = judge(GPU, measurement(around(96)), FIVE, RULE)
    found = judged.throughput
    assert found.interval is not None
    assert found.interval[1] < 0
    assert "the interval alone is not an alarm" in judged.text
    figures = {"low": -0.03, "high": 0.01, "alpha": RULE.alpha}
    wide = Finding(code="undecided", weight=Weight.OPEN, metric="throughput", figures=figures)
    assert "alarm" not in undecided(wide, "this noise")


def test_the_smallest_slowdown_that_is_certain_is_one_of_what_is_measured() -> None:
    """A change a little below it and one a little beyond it have the two verdicts."""
    [sees] = {
        found[1]
        for level in (96, 96.1)
        if (found := re.search(r"beyond ([\d.]+) %", judged_at(level)))
    }
    edge = 1 - float(sees) / 100
    assert "certainly more than" in judged_at(100 * edge - 0.2)
    assert "neither certainly" in judged_at(100 * edge + 0.2)


def judged_at(level: float) -> str:
    return judge(GPU, measurement(around(level)), FIVE, RULE).details[0]


def test_one_step_below_the_anchor_is_not_called_many() -> None:
    figures = {"now": 93.0, "before": 100.0, "change": -0.07, "tolerance": 0.03}
    fall = Finding(code="worse", weight=Weight.RED, metric="anchor", figures=figures)
    words = worse_clause(fall, PYTEST, leads=True)
    assert words.startswith("the last levels are 7.0 % slower than the anchor (100 to 93), ")
    assert "step" not in words
