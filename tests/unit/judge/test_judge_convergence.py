"""A run whose loss does not fall as the baseline's is an error, whatever its speed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import RankSummary, RunSummary
from pytest_dlperf.core.verdict import Judgement, Rule, Verdict
from pytest_dlperf.judge import judge, more_runs
from pytest_dlperf.judge.verdict import judge_pairs
from tests.helpers.judge_builders import (
    CONDITIONS,
    around,
    baseline,
    case,
    measurement,
    published,
    run,
    session,
)

pytestmark = pytest.mark.newest

RULE = Rule(family=24, tolerance=0.2)
CPU = case("1n2c")
#: Falls of the PyTorch suites on CPUs, width 8, 150 iterations ("two stages" is size tiny):
#: unchanged, where other seeds, other thread counts, or weights multiplied by 1 +- 1e-6 before the
#: first iteration, as another build's rounding does, moved the losses; and with the labels
#: shuffled at every step. On one build, with one seed, a CPU repeats its losses exactly.
RECORDED = {
    ("resnet50", "fp32"): (
        (
            *(0.791, 0.760, 0.811, 0.763, 0.782, 0.806, 0.823, 0.795, 0.803),
            *(0.695, 0.813, 0.792, 0.792, 0.797, 0.754, 0.752, 0.781, 0.813, 0.767),
        ),
        (0.195, 0.260, 0.075, 0.170),
    ),
    ("resnet50", "bf16"): (
        (
            *(0.782, 0.744, 0.740, 0.776, 0.774, 0.807),
            *(0.716, 0.816, 0.684, 0.812, 0.789, 0.803, 0.776, 0.812, 0.759, 0.771),
        ),
        (),
    ),
    ("deeplabv3p", "fp32"): (
        (
            *(0.672, 0.656, 0.651, 0.715, 0.715),
            *(0.705, 0.715, 0.753, 0.700, 0.738, 0.675, 0.668, 0.671, 0.670, 0.656),
        ),
        (0.335, 0.324, 0.021, 0.032, 0.024),
    ),
    ("deeplabv3p", "bf16"): (
        (
            0.720,
            0.680,
            0.711,
            0.661,
            0.673,
            0.671,
            0.689,
            0.578,
            0.715,
            0.714,
            0.601,
            0.572,
            0.738,
        ),
        (),
    ),
    ("tsm", "fp32"): (
        (1.0, 1.0, 1.0, 1.0, 1.0),
        (-4.88, -4.15, -7.50, -5.78, -3.24, -5.01, -9.87, -7.57),
    ),
    ("arcface", "fp32"): ((1.0, 1.0), (0.441, 0.434)),
    ("arcface", "bf16"): ((1.0, 1.0), ()),
    ("resnet50, two stages", "fp32"): (
        (0.786, 0.775, 0.785, 0.796, 0.790, 0.786, 0.786, 0.775, 0.785),
        (0.073, 0.036, 0.046, 0.077),
    ),
    ("resnet50, two stages", "bf16"): ((0.786, 0.775, 0.785), ()),
    ("deeplabv3p, two stages", "fp32"): ((0.951, 0.951, 0.946, 0.940, 0.942, 0.933), ()),
    ("deeplabv3p, two stages", "bf16"): ((0.926, 0.936, 0.951, 0.947), ()),
    ("tsm, two stages", "fp32"): ((1.0, 1.0, 1.0), (0.634, 0.626, 0.297, 0.596)),
    ("tsm, two stages", "bf16"): ((1.0,), ()),
    ("arcface, two stages", "fp32"): ((1.0, 1.0, 1.0), (0.408, 0.376)),
    ("resnet50 in TensorFlow, two ranks", "fp32"): ((0.543, 0.543), (0.205,)),
}


def trained(fall: float, rate: float = 100.0, start: float = 2.3) -> RunSummary:
    """Return a run of two ranks whose losses fell by ``fall`` of what they began with."""
    rank = RankSummary(
        rank=0, node="n", seconds=1.0, cpu_seconds=1.0, peak_memory_bytes=0,
        loss_first=start, loss_last=start * (1 - fall),
    )  # fmt: skip
    return replace(run(rate), ranks=(rank, replace(rank, rank=1)))


def measured(*falls: float, rate: float = 100.0, **fields: object) -> Measurement:
    return replace(
        measurement(around(rate)), runs=tuple(trained(fall, rate) for fall in falls), **fields
    )


def stored(*falls: float | None) -> Baseline:
    return baseline(*(replace(session(around(100)), loss_fall=fall) for fall in falls))


def judged(now: Measurement, before: Baseline | None, precision: str = "fp32") -> Judgement:
    return judge(replace(CPU, precision=precision), now, before, RULE)


@pytest.mark.parametrize("rate", [50.0, 100.0, 200.0])
def test_a_loss_that_hardly_fell_is_an_error_at_any_speed(rate: float) -> None:
    found = judged(measured(0.8, 0.8, 0.12, rate=rate), stored(0.78))
    assert found.verdict is Verdict.ERROR
    assert found.text.startswith(
        "fast but wrong: the loss fell by 12.0 % in run 3, the baseline's fell by 78.0 %"
    )
    assert found.throughput.now == rate
    assert found.throughput.judged_change is None


def test_a_loss_that_rose_is_said_to_have_risen() -> None:
    assert "the loss rose by 207.0 % in run 1" in judged(measured(-2.07), stored(1.0)).reason


def test_a_loss_that_fell_much_further_is_an_error_too() -> None:
    """Labels that are all one class are learnt at once."""
    assert judged(measured(0.99), stored(0.40)).verdict is Verdict.ERROR


@pytest.mark.parametrize(("suite", "precision"), RECORDED)
def test_recorded_trainings_are_distinguished_from_recorded_faults(
    suite: str, precision: str
) -> None:
    """Each unchanged one against each other as the only session stored: the hardest case."""
    unchanged, shuffled = RECORDED[suite, precision]
    for before in unchanged:
        for now in unchanged:
            verdict = judged(measured(now, now, now), stored(before), precision).verdict
            assert verdict is not Verdict.ERROR, (before, now)
        for now in shuffled:
            verdict = judged(measured(now, now, now), stored(before), precision).verdict
            assert verdict is Verdict.ERROR, (before, now)


def test_stored_sessions_that_scatter_widen_the_band_from_the_third_on() -> None:
    now = measured(0.45, 0.45, 0.45)
    assert judged(now, stored(0.9, 0.6)).verdict is Verdict.ERROR
    assert judged(now, stored(0.9, 0.75, 0.6)).verdict is not Verdict.ERROR


def test_a_small_fall_has_a_band_of_its_own_size() -> None:
    """In a long warm-up of the learning rate, 150 iterations learn little."""
    assert judged(measured(0.055), stored(0.05)).verdict is not Verdict.ERROR
    assert judged(measured(0.0), stored(0.05)).verdict is Verdict.ERROR


def test_shorter_dtypes_may_differ_more() -> None:
    for precision, verdict in (("fp32", Verdict.ERROR), ("amp", Verdict.PASSED)):
        found = judged(measured(0.56, 0.56, 0.56), stored(0.8), precision)
        assert found.verdict is verdict


@pytest.mark.parametrize(
    "before",
    [None, stored(None), published(100.0)],
    ids=["no baseline", "a baseline of no falls", "a published one"],
)
def test_without_a_stored_fall_nothing_is_said(before: Baseline | None) -> None:
    assert judged(measured(0.01), before).verdict is not Verdict.ERROR


def test_where_the_loss_need_not_fall_nothing_is_said() -> None:
    now, before = measured(0.01, 0.01, 0.01), stored(0.8)
    assert judge(replace(CPU, loss="finite"), now, before, RULE).verdict is Verdict.PASSED
    real = replace(CONDITIONS, data="real")
    before = replace(before, conditions=real)
    assert judged(replace(now, conditions=real), before).verdict is Verdict.PASSED


def test_another_training_is_incomparable_and_not_wrong() -> None:
    now = measured(0.2, conditions=replace(CONDITIONS, version=2))
    found = judged(now, stored(0.8))
    assert found.verdict is Verdict.INCOMPARABLE
    assert "version: 2, was 1" in found.text


def test_a_wrong_training_is_wrong_on_a_disturbed_machine_too() -> None:
    now = measured(0.2, problems=measurement([1.0], problem="disturbed").problems)
    assert judged(now, stored(0.8)).verdict is Verdict.ERROR


def test_how_fast_a_wrong_training_was_is_shown() -> None:
    slower = replace(
        measured(0.2), runs=tuple(replace(r, throughput=80.0) for r in measured(0.2).runs)
    )
    seen = judged(slower, stored(0.8)).throughput
    assert seen.refused
    assert seen.change is not None
    assert seen.interval is not None
    pairs = judge_pairs(CPU, slower, measured(0.8), RULE)
    assert pairs.verdict is Verdict.ERROR
    assert pairs.throughput.refused
    assert pairs.throughput.change == pytest.approx(seen.change)


def test_losses_that_are_unknown_are_left_to_others() -> None:
    now = replace(measurement(around(100)), runs=(trained(0.8), trained(0.0, start=0.0)))
    assert now.runs[1].loss_fall is None
    assert judged(now, stored(0.8)).verdict is not Verdict.ERROR


def test_a_wrong_training_gets_no_further_runs() -> None:
    found = judged(measured(0.1, 0.1, 0.1), stored(0.8))
    assert more_runs(CPU, found, 3) == 0
