"""Drift is found, and noise is not taken for it."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.measure.checks import drift

ROOT = Path(__file__).parents[3]
NOISE = Path(os.environ.get("DLPERF_SHARED", ROOT.parent / "shared")) / "noise"


def problems(steps: list[float], device: DeviceKind = "cpu") -> list[str]:
    return [p.message for p in drift(steps, 50, 100.0, "images", device)]


def noisy(count: int = 100, sd: float = 0.01) -> list[float]:
    rng = random.Random(1)
    return [0.1 * rng.lognormvariate(0, sd) for _ in range(count)]


def test_a_level_that_changes_is_drift_and_names_the_stretch():
    steps = [s * (1.3 if i >= 60 else 1) for i, s in enumerate(noisy())]
    [message] = problems(steps)
    assert "iterations 110 to 149 ran at" in message
    assert "images/s and took 46% of the time" in message


@pytest.mark.parametrize("total", [0.3, -0.3])
def test_a_slope_is_drift_in_both_directions(total: float):
    assert problems([s * (1 + total * i / 99) for i, s in enumerate(noisy())])


def test_a_burst_is_no_drift():
    assert not problems([s * (3 if 60 <= i < 80 else 1) for i, s in enumerate(noisy())])


def test_what_drifts_on_a_gpu_is_noise_on_a_cpu():
    steps = [s * (1.05 if i >= 50 else 1) for i, s in enumerate(noisy())]
    assert problems(steps, "gpu")
    assert not problems(steps, "cpu")


def test_a_short_window_shows_nothing():
    assert not problems([0.1] * 4 + [0.2] * 5)
    assert problems([0.1] * 5 + [0.2] * 5)


def rate_of_alarms(runs: list[list[float]]) -> float:
    return sum(bool(problems(steps)) for steps in runs) / len(runs)


@pytest.mark.skipif(not NOISE.exists(), reason="the recorded noise is not here")
def test_recorded_noise_of_unchanged_code_is_no_drift():
    """Runs of 100 steps; some of them were hit by other work, and those do drift."""
    alarms = {}
    for name in ("rec_quiet", "rec_shared"):
        lines = (NOISE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        alarms[name] = rate_of_alarms([json.loads(line)["it"][50:] for line in lines])
    torch = []
    for path in sorted((NOISE / "torch" / "quiet").glob("*.r0.json")):
        ranks = [path, path.with_name(path.name.replace(".r0.", ".r1."))]
        steps = [json.loads(p.read_text(encoding="utf-8"))["per"][50:] for p in ranks]
        torch.append(max(steps, key=sum))
    alarms["torch"] = rate_of_alarms(torch)
    assert alarms["rec_quiet"] <= 0.03
    assert alarms["torch"] <= 0.06
    assert alarms["rec_shared"] <= 0.23
