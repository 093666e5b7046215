"""A changed machine is not a regression, and no excuse for one either."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from pytest_dlperf.core.case import Known
from pytest_dlperf.core.verdict import Judgement, KnownState, Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.canary import shifts
from pytest_dlperf.judge.expected import with_known
from tests.helpers.judge_builders import around, baseline, case, measurement, run, session

RULE = Rule(family=24, tolerance=0.05)
GPU = case("1n2g")


def stored(*canaries: dict[str, float]) -> object:
    return baseline(*(session(around(100), canary=canary) for canary in canaries))


BEFORE = stored(*({"matmul": 50.0, "copy": rate} for rate in (10.0, 10.05, 9.95, 10.0, 10.0)))


def verdict(level: float, canary: dict[str, float], before: object = BEFORE) -> Verdict:
    now = measurement(around(level), canary=canary)
    return judge(GPU, now, before, RULE).verdict  # type: ignore[arg-type]


def test_a_machine_that_slowed_with_the_case_is_incomparable() -> None:
    now = measurement(around(85), canary={"matmul": 42.5, "copy": 10.0})
    judged = judge(GPU, now, BEFORE, RULE)  # type: ignore[arg-type]
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "15.0 % slower" in judged.reason
    assert "canary matmul" in judged.reason
    assert "measure again" in judged.reason
    assert judged.throughput.change == pytest.approx(-0.15, abs=0.01)
    assert not judged.throughput.is_judged


def test_a_machine_that_moved_forbids_a_pass_that_it_may_explain() -> None:
    assert verdict(100, {"matmul": 57.5, "copy": 10.0}) is Verdict.INCOMPARABLE
    assert verdict(115, {"matmul": 57.5, "copy": 10.0}) is Verdict.INCOMPARABLE


def test_a_case_within_the_given_tolerance_by_every_reading_passes() -> None:
    """As large as the shift is taken: not at all, once, or twice out of the change."""
    slower, faster = {"matmul": 42.5, "copy": 10.0}, {"matmul": 57.5, "copy": 10.0}
    judged = judge(GPU, measurement(around(100), canary=slower), BEFORE, RULE)  # type: ignore[arg-type]
    assert judged.verdict is Verdict.PASSED
    assert "15.0 % slower (canary matmul), which the tolerance has room for" in judged.reason
    # A machine that is 15 % faster leaves room for a slowdown of 28 %.
    wide = replace(RULE, tolerance=0.30)
    for rate, expected in ((100, Verdict.PASSED), (90, Verdict.INCOMPARABLE)):
        now = measurement(around(rate), canary=faster)
        assert judge(GPU, now, BEFORE, wide).verdict is expected  # type: ignore[arg-type]
    # Beyond the machine's own speed: nothing is called improved that the machine may explain
    judged = judge(GPU, measurement(around(118), canary=faster), BEFORE, wide)  # type: ignore[arg-type]
    assert judged.verdict is Verdict.PASSED
    # What is learnt from noise has no room for a machine
    learnt = replace(RULE, tolerance=None)
    now = measurement(around(100), canary=slower)
    assert judge(GPU, now, BEFORE, learnt).verdict is Verdict.INCOMPARABLE  # type: ignore[arg-type]


def test_metrics_of_the_canary_that_moved_apart_are_each_a_reading() -> None:
    """The larger shift is that of the arithmetic; the training may follow the memory."""
    apart = {"matmul": 40.0, "copy": 11.0}
    before = stored({"matmul": 50.0, "copy": 10.0})
    for tolerance, expected in ((0.15, Verdict.INCOMPARABLE), (0.30, Verdict.PASSED)):
        now = measurement(around(100), canary=apart)
        judged = judge(GPU, now, before, replace(RULE, tolerance=tolerance))  # type: ignore[arg-type]
        assert judged.verdict is expected
        assert "canary matmul" in judged.reason
    # Nor is it regressed for what the smaller shift explains
    apart = {"matmul": 65.0, "copy": 8.5}
    judged = judge(GPU, measurement(around(85), canary=apart), before, RULE)  # type: ignore[arg-type]
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "15.0 % slower than with the baseline (canary copy)" in judged.reason


def test_a_canary_that_varies_is_no_exact_measure_of_the_machine() -> None:
    """One session each: of medians of five runs, with the degrees of freedom of five runs."""
    [moved] = shifts(
        replace(
            measurement([1.0]),
            runs=tuple(run(100.0, canary={"matmul": rate}) for rate in around(60, 0.03)),
        ),
        [session(around(100), canary={"matmul": 50.0})],
        "gpu",
    )
    assert moved.df == 4
    assert moved.noise == pytest.approx(0.03 * math.sqrt(2.5) * math.sqrt(1.43 * 2 / 5))


def test_what_passed_by_every_reading_is_no_news_of_a_known_slowdown() -> None:
    """7 % faster by the canary, and 3 % by the rate: a slowdown of 4 % may still be there."""
    known = Known.parse({"issue": "#1", "until": "2027-01-31", "change": "-4%"})
    wide = replace(RULE, tolerance=0.30)
    found = {}
    for moved, canary in ((True, 53.5), (False, 50.0)):
        now = measurement(around(103), canary={"matmul": canary, "copy": 10.0})
        judged = judge(GPU, now, BEFORE, wide)  # type: ignore[arg-type]
        assert judged.by_readings is moved
        found[moved] = with_known(judged, known, date(2026, 12, 1)).known
    assert found == {True: None, False: KnownState.GONE}


def test_a_metric_that_is_worse_keeps_a_moved_machine_incomparable() -> None:
    stored = session(around(100), parent=around(51), canary={"matmul": 50.0})
    for parent, expected in ((51, Verdict.PASSED), (70, Verdict.INCOMPARABLE)):
        now = measurement(around(100), parent=around(parent), canary={"matmul": 42.5})
        assert judge(GPU, now, baseline(*[stored] * 5), RULE).verdict is expected


def test_a_change_far_beyond_the_machine_is_judged_and_says_so() -> None:
    now = measurement(around(50), canary={"matmul": 45.0, "copy": 10.0})
    judged = judge(GPU, now, BEFORE, RULE)  # type: ignore[arg-type]
    assert judged.verdict is Verdict.REGRESSED
    assert "does not explain it" in judged.reason
    # A machine that became faster explains no slowdown.
    assert verdict(80, {"matmul": 55.0, "copy": 10.0}) is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("layout", "rate", "moved"), [("1n2g", 52.4, False), ("1n2g", 53.0, True),
                                  ("1n2c", 54.9, False), ("1n2c", 56.0, True)],
)  # fmt: skip
def test_the_margin_is_that_of_the_device(layout: str, rate: float, moved: bool) -> None:
    now = measurement(around(100), canary={"matmul": rate})
    judged = judge(case(layout), now, stored({"matmul": 50.0}), replace(RULE, tolerance=0.08))
    assert (judged.verdict is Verdict.INCOMPARABLE) is moved


def test_a_canary_that_varies_between_sessions_moves_less_easily() -> None:
    wild = stored(*({"matmul": rate} for rate in (45.0, 50.0, 55.0, 48.0)))
    assert verdict(100, {"matmul": 57.0}) is Verdict.INCOMPARABLE
    assert verdict(100, {"matmul": 57.0}, wild) is Verdict.PASSED


def test_a_canary_that_varies_between_runs_moves_less_easily() -> None:
    rates = (40.0, 50.0, 57.0, 60.0, 70.0)
    runs = tuple(run(100.0, canary={"matmul": rate}) for rate in rates)
    now = replace(measurement([1.0]), runs=runs)
    assert judge(GPU, now, BEFORE, RULE).verdict is Verdict.PASSED  # type: ignore[arg-type]


def test_only_what_both_sides_measured_counts() -> None:
    assert verdict(100, {"allreduce": 1.0}) is Verdict.PASSED
    assert verdict(100, {}) is Verdict.PASSED
    assert verdict(100, {"copy": 0.0}) is Verdict.PASSED
    assert verdict(100, {"matmul": 60.0}, stored({"copy": 10.0})) is Verdict.PASSED


def test_the_canary_goes_before_unsteady() -> None:
    now = measurement(around(85), canary={"matmul": 42.5}, problem="drift")
    judged = judge(GPU, now, BEFORE, RULE)  # type: ignore[arg-type]
    assert judged.verdict is Verdict.INCOMPARABLE


def test_a_change_a_little_beyond_the_machine_is_still_its_doing() -> None:
    # 10 % slower machine, 21 % slower case: 12 % more, of which the tolerance takes 5 %.
    assert verdict(79, {"matmul": 45.0, "copy": 10.0}) is Verdict.INCOMPARABLE


def test_on_cpu_processes_a_noisy_all_reduce_is_no_change_of_the_machine() -> None:
    """Rates of a recorded session: -32 % of all-reduce, the matrix product as it was."""
    before = baseline(session(around(111), canary={"all_reduce_gb_per_s": 1.28}))
    now = measurement(around(75))
    rates = (1.27, 1.29, 0.91, 0.73, 0.74)
    runs = tuple(
        replace(one, canary={"all_reduce_gb_per_s": rate})
        for one, rate in zip(now.runs, rates, strict=False)
    )
    judged = judge(case("1n2c"), replace(now, runs=runs), before, RULE)
    assert judged.verdict is Verdict.REGRESSED


def by_node(now: dict[str, float], *sessions: dict[str, float], level: float = 100) -> Judgement:
    """Judge a case of two nodes; ``now`` and each session: matmul by node."""

    def fields(rates: dict[str, float]) -> dict[str, Any]:
        return {
            "canary": {"matmul": min(rates.values())},
            "canary_by_node": {node: {"matmul": rate} for node, rate in rates.items()},
        }

    measured = measurement(around(level))
    runs = tuple(replace(run, **fields(now)) for run in measured.runs)
    stored = [replace(session(around(100)), **fields(rates)) for rates in sessions]
    return judge(GPU, replace(measured, runs=runs), baseline(*stored), RULE)


def test_each_node_is_compared_with_itself() -> None:
    # The slowest node is as slow as ever, the other has become slower.
    judged = by_node({"n1": 40.0, "n2": 42.0}, {"n1": 40.0, "n2": 50.0}, level=90)
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "node n2 itself is 16.0 % slower" in judged.reason
    assert by_node({"n1": 40.0, "n2": 50.0}, {"n1": 40.0, "n2": 50.0}).verdict is Verdict.PASSED


def test_a_node_counts_only_in_the_sessions_that_ran_on_it() -> None:
    assert by_node({"n1": 50.0}, {"n2": 40.0}, {"n1": 50.0}).verdict is Verdict.PASSED
    judged = by_node({"n1": 42.0}, {"n2": 42.0}, {"n1": 50.0}, level=90)
    assert "the machine itself is 16.0 % slower" in judged.reason


def test_a_new_node_is_compared_with_the_slowest_of_before() -> None:
    assert by_node({"n1": 50.0, "n3": 41.0}, {"n1": 50.0, "n2": 40.0}).verdict is Verdict.PASSED
    judged = by_node({"n1": 50.0, "n3": 30.0}, {"n1": 50.0, "n2": 40.0}, level=80)
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "the machine itself is 25.0 % slower" in judged.reason
