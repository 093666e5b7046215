"""The published times to train of the Paddle TSM report, against its published rates."""

from __future__ import annotations

from pathlib import Path

import pytest

from perf_tests.tsm.cases import KINETICS_400
from pytest_dlperf.store.baseline.store import BaselineStore

BASELINES = Path(__file__).parents[3] / "baselines"


def pair(layout: str) -> tuple[float, float]:
    (baseline,) = BaselineStore(BASELINES).published(f"tsm-paddle-amp-bs16-{layout}", "tsm")
    seconds = baseline.facts["time_to_train_s"]
    assert isinstance(seconds, float)
    return baseline.throughputs[0], seconds


def test_the_two_pairs_are_of_the_same_work_within_4_percent():
    (rate_8, seconds_8), (rate_32, seconds_32) = pair("1n8g"), pair("4n8g")
    assert rate_8 * seconds_8 == pytest.approx(rate_32 * seconds_32, rel=0.04)


@pytest.mark.parametrize(("layout", "rest"), [("1n8g", 0.053), ("4n8g", 0.028)])
def test_the_projection_is_short_of_the_published_time_by_the_validation(layout, rest):
    rate, seconds = pair(layout)
    projected = KINETICS_400["epochs"] * KINETICS_400["samples_per_epoch"] / rate
    assert 1 - projected / seconds == pytest.approx(rest, abs=0.0005)
