"""One example of each verdict, its sentence, and which goes first."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.verdict import TOLERANCE, Rule, Verdict
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import (
    CONDITIONS,
    around,
    baseline,
    case,
    measurement,
    published,
    session,
)

GPU = case("1n2g")
RULE = Rule(family=24)
FIVE = tuple(session(around(level)) for level in (99.5, 99.8, 100, 100.2, 100.5))


def test_unchanged_is_passed_and_says_what_it_can_see() -> None:
    judged = judge(GPU, measurement(around(100)), baseline(*FIVE), RULE)
    assert judged.verdict is Verdict.PASSED
    found = judged.throughput
    assert found.now == pytest.approx(100)
    assert found.before == pytest.approx(100, rel=1e-4)
    assert found.change == pytest.approx(0, abs=1e-4)
    assert found.interval is not None
    assert found.interval[0] < 0 < found.interval[1]
    assert found.sees is not None
    assert 0.02 < found.sees < 0.06
    assert not found.provisional
    assert "unchanged from the baseline" in judged.text
    assert f"{100 * found.sees:.1f} % would have been detected" in judged.text


def test_a_large_slowdown_is_regressed_and_names_the_remedy() -> None:
    judged = judge(GPU, measurement(around(90)), baseline(*FIVE), RULE)
    assert judged.verdict is Verdict.REGRESSED
    assert judged.throughput.change == pytest.approx(-0.1, abs=1e-3)
    assert "10.0 % slower" in judged.text
    assert "--update-baselines --dlperf-reason=TEXT" in judged.text


def test_a_large_speedup_is_improved() -> None:
    judged = judge(GPU, measurement(around(110)), baseline(*FIVE), RULE)
    assert judged.verdict is Verdict.IMPROVED
    assert "10.0 % faster" in judged.text


def test_between_the_margins_is_inconclusive() -> None:
    judged = judge(GPU, measurement(around(96)), baseline(*FIVE), RULE)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "no number of runs would decide it" in judged.text


def test_slower_for_certain_yet_within_tolerance_is_passed_and_says_so() -> None:
    rule = replace(RULE, tolerance=0.15)
    judged = judge(GPU, measurement(around(92)), baseline(*FIVE), rule)
    assert judged.verdict is Verdict.PASSED
    assert judged.reason.startswith("certainly 8.0 % slower")
    assert judged.details[0].startswith("certainly slower")


def test_below_min_effect_nothing_is_regressed() -> None:
    rule = replace(RULE, min_effect=0.15, tolerance=0.01)
    judged = judge(GPU, measurement(around(90)), baseline(*FIVE), rule)
    assert judged.verdict is Verdict.INCONCLUSIVE


def test_one_stored_session_is_provisional_and_certifies_what_its_noise_allows() -> None:
    before = baseline(session([97.5, 99, 100, 101.5, 103]))
    now = measurement([98, 99.5, 100.5, 101, 102])
    for tolerance, verdict in ((None, Verdict.INCONCLUSIVE), (0.15, Verdict.PASSED)):
        judged = judge(case(), now, before, replace(RULE, tolerance=tolerance))
        assert judged.verdict is verdict
        assert judged.throughput.provisional
        assert "the one stored session" in judged.text


@pytest.mark.parametrize("before", [None, baseline()])
def test_without_stored_runs_there_is_no_verdict(before: object) -> None:
    judged = judge(GPU, measurement(around(100)), before, RULE)  # type: ignore[arg-type]
    assert judged.verdict is Verdict.NO_BASELINE
    assert "--update-baselines" in judged.text
    assert judged.throughput.change is None
    assert judged.throughput.now == pytest.approx(100)


def test_other_conditions_are_incomparable_and_named() -> None:
    other = baseline(*FIVE, conditions=replace(CONDITIONS, dtype="bfloat16", threads_per_rank=4))
    judged = judge(GPU, measurement(around(50)), other, RULE)
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "dtype: float32, was bfloat16" in judged.text
    assert "threads_per_rank: 1, was 4" in judged.text
    assert judged.throughput.change == pytest.approx(-0.5, abs=0.01)
    assert not judged.throughput.is_judged


def test_another_unit_is_incomparable_even_with_a_published_number() -> None:
    other = replace(published(100.0), unit="clips")
    judged = judge(GPU, measurement(around(100)), other, RULE)
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "unit: images, was clips" in judged.text
    assert judged.throughput.change is None


def test_a_published_number_has_no_conditions_and_the_sentence_says_what_it_is() -> None:
    judged = judge(GPU, measurement(around(100)), published(99.9, 100.2), RULE)
    assert judged.verdict is Verdict.PASSED
    assert "the published number (report 002 fp32)" in judged.text


def test_a_disturbed_session_is_incomparable() -> None:
    now = measurement(around(50), problem="disturbed", message="others used 40 % of the CPUs.")
    judged = judge(GPU, now, baseline(*FIVE), RULE)
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "others used 40 % of the CPUs" in judged.details


@pytest.mark.parametrize("code", ["drift", "implausible-speedup", "recompiled"])
@pytest.mark.parametrize("before", [None, baseline(*FIVE)])
def test_problems_of_the_measurement_are_unsteady(code: str, before: object) -> None:
    now = measurement(around(100), problem=code, message="the steps became slower")
    judged = judge(GPU, now, before, RULE)  # type: ignore[arg-type]
    assert judged.verdict is Verdict.UNSTEADY
    assert "the steps became slower" in judged.text


def test_other_problems_change_nothing() -> None:
    now = measurement(around(100), problem="loss-flat")
    assert judge(GPU, now, baseline(*FIVE), RULE).verdict is Verdict.PASSED


def test_scattered_stored_runs_leave_a_case_open() -> None:
    before = baseline(session([40.0, 80.0, 100.0, 130.0, 41.0]))
    judged = judge(case(), measurement(around(60)), before, RULE)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert judged.throughput.sees is not None
    assert judged.throughput.sees > 0.5


def test_tolerance_comes_from_command_line_then_case_then_baseline() -> None:
    def used(rule: float | None, own: float | None, stored: float | None) -> float | None:
        before = baseline(*FIVE, tolerance=stored)
        subject = case("1n2g", tolerance=own)
        found = judge(subject, measurement(around(100)), before, replace(RULE, tolerance=rule))
        return found.throughput.tolerance

    assert used(0.11, 0.12, 0.13) == 0.11
    assert used(None, 0.12, 0.13) == 0.12
    assert used(None, None, 0.13) == 0.13
    assert used(None, None, None) == TOLERANCE


def test_a_large_tolerance_is_obeyed() -> None:
    before = baseline(session([80.0, 90.0, 100.0, 110.0, 120.0]))
    rule = replace(RULE, tolerance=0.6)
    assert judge(case(), measurement(around(100)), before, rule).verdict is Verdict.PASSED


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_rates_never_give_a_verdict(bad: float) -> None:
    good = around(100)
    for now, before in (
        (measurement([*good, bad]), baseline(*FIVE)),
        (measurement(good, parent=[50, bad]), baseline(*FIVE)),
        (measurement(good), baseline(session([100, bad]))),
        (measurement([*good, bad]), None),
    ):
        with pytest.raises(CaseError, match="not a throughput"):
            judge(GPU, now, before, RULE)


def test_no_run_at_all_is_an_error() -> None:
    with pytest.raises(CaseError, match="no valid run"):
        judge(GPU, measurement([]), baseline(*FIVE), RULE)


def test_incomparable_goes_before_unsteady() -> None:
    other = baseline(*FIVE, conditions=replace(CONDITIONS, version=2))
    now = measurement(around(100), problem="drift")
    assert judge(GPU, now, other, RULE).verdict is Verdict.INCOMPARABLE


def test_one_run_of_five_that_others_slowed_does_not_move_the_level() -> None:
    judged = judge(GPU, measurement([50, 99.8, 100, 100.1, 100.2]), baseline(*FIVE), RULE)
    assert judged.throughput.change == pytest.approx(0, abs=1e-3)
    assert judged.verdict is Verdict.INCONCLUSIVE


def test_importing_the_judge_imports_neither_scipy_nor_numpy_nor_pytest() -> None:
    code = (
        "import sys, pytest_dlperf.judge; "
        "print([m for m in ('scipy', 'numpy', 'pytest') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "[]"


def test_fewer_runs_than_were_stored_see_less_and_more_see_more() -> None:
    def sees(runs: int) -> float:
        judged = judge(GPU, measurement([100.0] * runs), baseline(*FIVE), RULE)
        assert judged.throughput.sees is not None
        return judged.throughput.sees

    assert sees(1) > 1.1 * sees(3) > 1.1 * sees(5)
    assert sees(5) > sees(10) > 0.5 * sees(5), "days differ, however many runs there are"


def test_what_observe_mode_set_aside_is_no_part_of_the_level() -> None:
    level = [session(around(100 + i / 10)) for i in range(5)]
    aside = [replace(session(around(80)), reason="observed: regressed") for _ in range(5)]
    rule = Rule(tolerance=0.05)
    for rates in (around(100), around(80)):
        found = judge(case("1n1g"), measurement(rates), baseline(*level, *aside), rule)
        assert found == judge(case("1n1g"), measurement(rates), baseline(*level), rule)
    assert found.verdict is Verdict.REGRESSED


@pytest.mark.parametrize("slower", [0.3, 0.5])
def test_three_sessions_that_differ_do_not_hide_what_one_would_show(slower: float) -> None:
    levels = [session(around(rate)) for rate in (100.0, 100.2, 94.0)]
    now = measurement(around(100 * (1 - slower), runs=10))
    for stored in (levels[:1], levels):
        assert judge(GPU, now, baseline(*stored), Rule(family=24)).verdict is Verdict.REGRESSED


@pytest.mark.parametrize("slower", [0.0, 0.08, 0.1])
def test_the_runs_that_are_said_to_decide_do(slower: float) -> None:
    stored = baseline(*(session(around(rate, 0.03)) for rate in (100.0, 100.5, 99.5, 100.2, 99.8)))
    rule = Rule(family=24)
    at_first = judge(GPU, measurement(around(100 * (1 - slower), 0.03, runs=3)), stored, rule)
    needed = at_first.throughput.runs_needed
    assert at_first.verdict is Verdict.INCONCLUSIVE
    assert needed is not None
    assert needed > 3
    more = measurement(around(100 * (1 - slower), 0.03 * 3 / needed, runs=needed))
    assert judge(GPU, more, stored, rule).verdict is not Verdict.INCONCLUSIVE
