"""A changed machine is not a regression, and no excuse for one either."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.judge import judge
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
    assert "15.0 % slower" in judged.text
    assert "canary matmul" in judged.text
    assert "measure again" in judged.text
    assert judged.throughput.change == pytest.approx(-0.15, abs=0.01)
    assert not judged.throughput.is_judged


def test_a_machine_that_moved_forbids_a_pass_that_it_may_explain() -> None:
    assert verdict(100, {"matmul": 57.5, "copy": 10.0}) is Verdict.INCOMPARABLE
    assert verdict(115, {"matmul": 57.5, "copy": 10.0}) is Verdict.INCOMPARABLE


def test_each_metric_of_the_canary_may_explain_a_change() -> None:
    """The larger shift is that of the arithmetic; the training may follow the memory."""
    before = stored({"matmul": 50.0, "copy": 10.0})
    apart = {"matmul": 65.0, "copy": 8.5}
    judged = judge(GPU, measurement(around(85), canary=apart), before, RULE)  # type: ignore[arg-type]
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "15.0 % slower than with the baseline; measure" in judged.text


def test_a_change_far_beyond_the_machine_is_judged_and_says_so() -> None:
    now = measurement(around(50), canary={"matmul": 45.0, "copy": 10.0})
    judged = judge(GPU, now, BEFORE, RULE)  # type: ignore[arg-type]
    assert judged.verdict is Verdict.REGRESSED
    assert "does not explain it" in judged.text
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
    assert "node n2 itself is 16.0 % slower" in judged.text
    assert by_node({"n1": 40.0, "n2": 50.0}, {"n1": 40.0, "n2": 50.0}).verdict is Verdict.PASSED


def test_a_node_counts_only_in_the_sessions_that_ran_on_it() -> None:
    assert by_node({"n1": 50.0}, {"n2": 40.0}, {"n1": 50.0}).verdict is Verdict.PASSED
    judged = by_node({"n1": 42.0}, {"n2": 42.0}, {"n1": 50.0}, level=90)
    assert "the machine itself is 16.0 % slower" in judged.text


def test_a_new_node_is_compared_with_the_slowest_of_before() -> None:
    assert by_node({"n1": 50.0, "n3": 41.0}, {"n1": 50.0, "n2": 40.0}).verdict is Verdict.PASSED
    judged = by_node({"n1": 50.0, "n3": 30.0}, {"n1": 50.0, "n2": 40.0}, level=80)
    assert judged.verdict is Verdict.INCOMPARABLE
    assert "the machine itself is 25.0 % slower" in judged.text
