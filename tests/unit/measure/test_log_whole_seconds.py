"""Bars whose clock has whole seconds: medians and means say what work over time says."""

from __future__ import annotations

import io
import random

import pytest

from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions

STEPS = 400
HEAD = "***** Running training *****\n  Total optimization steps = 400\n"


def trained(each_s: float, *, seed: int, name: str = "", jitter: float = 0.02) -> LogResult:
    generator = random.Random(seed)
    text, elapsed = HEAD, 0.0
    for step in range(1, STEPS + 1):
        elapsed += each_s * generator.uniform(1 - jitter, 1 + jitter)
        clock = f"{int(elapsed) // 60:02d}:{int(elapsed) % 60:02d}"
        text += f"{name}{step // 4:3d}%|##  | {step}/{STEPS} [{clock}<00:59, {each_s:.2f}s/it]\n"
    options = ParseOptions(batch_size_per_device=8, world_size=1)
    return extract_stream(io.BytesIO(text.encode()), "train.log", options)


@pytest.mark.parametrize("name", ["", "Train: "])
@pytest.mark.parametrize("each_s", [0.55, 0.9, 1.1, 1.3, 1.7, 2.2, 2.6, 3.3, 4.6, 7.4])
def test_all_estimates_of_a_steady_bar_agree(each_s: float, name: str) -> None:
    result = trained(each_s, seed=3, name=name)

    assert result.estimates is not None
    assert result.estimates.time_weighted == pytest.approx(8 / each_s, rel=0.01)
    assert result.estimates.median_of_rates == pytest.approx(8 / each_s, rel=0.02)
    assert result.estimates.mean_of_rates == pytest.approx(8 / each_s, rel=0.02)
    assert "unstable" not in {problem.code for problem in result.problems}


@pytest.mark.parametrize(
    ("base_s", "now_s"), [(1.0, 1.1), (2.0, 2.2), (2.5, 2.8), (0.5, 0.57), (2.2, 2.2), (1.1, 1.1)]
)
@pytest.mark.parametrize("jitter", [0.0, 0.02])
def test_all_estimates_see_the_same_change(base_s: float, now_s: float, jitter: float) -> None:
    base, now = (
        trained(each_s, seed=seed, jitter=jitter).estimates
        for each_s, seed in ((base_s, 3), (now_s, 4))
    )

    assert base is not None
    assert now is not None
    for name in ("mean_of_rates", "median_of_rates", "time_weighted"):
        ratio = getattr(now, name) / getattr(base, name)
        assert ratio == pytest.approx(base_s / now_s, rel=0.02)


def test_iterations_and_work_are_those_of_the_bar() -> None:
    result = trained(1.3, seed=5)

    # A window across the end of the warm-up is dropped whole.
    assert STEPS - 55 <= result.iterations <= STEPS - 50
    assert result.kept is not None
    assert (result.kept.iterations > 0).all()
    assert result.kept.iterations.sum() == result.iterations
    assert result.kept.seconds[:-1].min() >= 36
    assert result.iteration_work == pytest.approx(8)
