"""Speedup and peak memory: when they fail a case, and when they only say something."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import around, baseline, case, measurement, session

GPU = case("1n8g")
RULE = Rule(family=24)
GB = 10**9


def five(memory: int = 0) -> tuple[object, ...]:
    return tuple(
        session(around(level), parent=around(level / 7), memory=memory)
        for level in (99.5, 99.8, 100, 100.2, 100.5)
    )


def test_speedup_is_compared_and_passes_with_the_throughput() -> None:
    judged = judge(GPU, measurement(around(100), parent=around(100 / 7)), baseline(*five()), RULE)
    assert judged.verdict is Verdict.PASSED
    found = judged.metrics["speedup"]
    assert found.now == pytest.approx(7)
    assert found.before == pytest.approx(7)
    assert found.verdict is Verdict.PASSED
    assert "peak_memory" not in judged.metrics


def test_a_speedup_that_fell_fails_where_throughput_is_not_certified() -> None:
    # At 96 throughput is inconclusive; one device became faster by 14 %.
    now = measurement(around(96), parent=around(114 / 7))
    judged = judge(GPU, now, baseline(*five()), RULE)
    assert judged.throughput.verdict is Verdict.INCONCLUSIVE
    assert judged.verdict is Verdict.REGRESSED
    assert judged.text.startswith("speedup fell by 15.8 %")


def test_a_speedup_that_fell_is_excused_by_a_certified_throughput() -> None:
    now = measurement(around(100), parent=around(114 / 7))
    judged = judge(GPU, now, baseline(*five()), RULE)
    assert judged.verdict is Verdict.PASSED
    assert judged.metrics["speedup"].verdict is Verdict.REGRESSED
    assert "only because one device became 14.0 % faster" in judged.text


def test_speedup_is_absent_where_one_side_lacks_it() -> None:
    for now, before in (
        (measurement(around(100)), baseline(*five())),
        (measurement(around(100), parent=around(14)), baseline(session(around(100)))),
    ):
        assert "speedup" not in judge(GPU, now, before, RULE).metrics


@pytest.mark.parametrize(("rate", "implausible"), [(401.0, False), (460.0, True)])
def test_the_ideal_speedup_is_that_over_the_reference(rate: float, implausible: bool) -> None:
    """Four times the devices of the reference are at most four times as fast."""
    now = measurement(around(rate), parent=around(100.0), reference=Layout.parse("1n2g"))
    found = judge(GPU, now, None, RULE)
    assert (found.verdict is Verdict.UNSTEADY) is implausible
    if implausible:
        assert "of 1n8g over 1n2g is implausible: the runs of 1n2g were slowed" in found.text


def test_a_stored_speedup_without_its_runs_is_compared() -> None:
    before = baseline(replace(session(around(100)), speedup=7.0))
    judged = judge(GPU, measurement(around(100), parent=around(100 / 6)), before, RULE)
    assert judged.metrics["speedup"].change == pytest.approx(-1 / 7)


@pytest.mark.parametrize("before", [True, False])
def test_a_speedup_above_the_number_of_devices_is_unsteady(before: bool) -> None:
    now = measurement(around(100), parent=around(10))
    judged = judge(GPU, now, baseline(*five()) if before else None, RULE)
    assert judged.verdict is Verdict.UNSTEADY
    assert "a speedup of 10 on 8 devices" in judged.text


def test_a_speedup_above_the_number_of_devices_within_noise_is_judged() -> None:
    # 8.6 on 8 devices, from a one-device side that scatters by a factor.
    now = measurement(around(100), parent=[7.0, 9.0, 100 / 8.6, 14.0, 20.0])
    assert judge(GPU, now, baseline(*five()), RULE).verdict is Verdict.PASSED


def test_a_grown_peak_memory_fails_a_case_that_passed() -> None:
    now = measurement(around(100), memory=int(1.05 * GB))
    judged = judge(GPU, now, baseline(*five(GB)), RULE)
    assert judged.throughput.verdict is Verdict.PASSED
    assert judged.verdict is Verdict.REGRESSED
    assert judged.details[0].startswith(
        "peak memory grew by 5.0 % (953.7 to 1001 MiB; 90 % interval"
    )
    found = judged.metrics["peak_memory"]
    assert found.change == pytest.approx(0.05)
    assert found.interval is not None
    assert found.interval[0] < 0.05 < found.interval[1]
    assert found.sees is not None
    assert 0.02 <= found.sees < 0.05


@pytest.mark.parametrize("memory", [0, -1])
def test_a_stored_memory_that_is_none_is_not_compared(memory: int) -> None:
    judged = judge(GPU, measurement(around(100), memory=GB), baseline(*five(memory)), RULE)
    assert judged.verdict is Verdict.PASSED
    assert "peak_memory" not in judged.metrics


def test_a_grown_peak_memory_fails_a_case_that_improved_or_is_inconclusive() -> None:
    for level in (110, 96):
        now = measurement(around(level), memory=2 * GB)
        assert judge(GPU, now, baseline(*five(GB)), RULE).verdict is Verdict.REGRESSED


def test_memory_below_two_per_cent_more_never_fails() -> None:
    rule = replace(RULE, min_effect=0.001, family=1)
    now = measurement(around(100), memory=int(1.019 * GB))
    judged = judge(GPU, now, baseline(*five(GB)), rule)
    assert judged.verdict is Verdict.PASSED
    now = measurement(around(100), memory=int(1.035 * GB))
    assert judge(GPU, now, baseline(*five(GB)), rule).verdict is Verdict.REGRESSED


def test_less_memory_is_improved_in_the_metric_and_changes_no_verdict() -> None:
    now = measurement(around(100), memory=GB // 2)
    judged = judge(GPU, now, baseline(*five(GB)), RULE)
    assert judged.verdict is Verdict.PASSED
    assert judged.metrics["peak_memory"].verdict is Verdict.IMPROVED


def test_a_regressed_throughput_stays_the_reason() -> None:
    now = measurement(around(80), memory=2 * GB, parent=around(100 / 7))
    judged = judge(GPU, now, baseline(*five(GB)), RULE)
    assert judged.verdict is Verdict.REGRESSED
    assert judged.text.startswith("20.0 % slower")


def test_drifting_steps_do_not_explain_a_peak_memory_that_grew() -> None:
    now = measurement(around(100), memory=2 * GB, problem="drift")
    judged = judge(GPU, now, baseline(*five(GB)), RULE)
    assert judged.verdict is Verdict.REGRESSED
    assert set(judged.metrics) == {"peak_memory"}
    assert judged.throughput.verdict is Verdict.UNSTEADY
    assert judged.text.startswith("peak memory grew by 100.0 %")
    steady = judge(GPU, replace(now, runs=measurement(around(100), memory=GB).runs),
                   baseline(*five(GB)), RULE)  # fmt: skip
    assert steady.verdict is Verdict.UNSTEADY
    assert steady.metrics == {}
