"""All four suites train at tiny size, for real: fp32 and bf16, one and two processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.losses import assert_losses_fell

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
SUITES = ("arcface", "deeplabv3p", "resnet50", "tsm")


def test_every_suite_trains_at_tiny_size(tmp_path):
    results = tmp_path / "r.json"
    command = [
        sys.executable, "-m", "pytest", "perf_tests", "-p", "no:cacheprovider", "-k", "torch",
        "--cpus=1,2", "--dlperf-runs=1", f"--dlperf-json={results}",
        f"--dlperf-workdir={tmp_path / 'work'}", f"--dlperf-baselines={tmp_path / 'baselines'}",
    ]  # fmt: skip
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout
    outcomes = json.loads(results.read_text(encoding="utf-8"))["outcomes"]
    found = {
        (o["case"]["suite"], o["case"]["precision"], o["measurement"]["conditions"]["world_size"])
        for o in outcomes
    }
    assert found == {(s, p, n) for s in SUITES for p in ("fp32", "bf16") for n in (1, 2)}
    for outcome in outcomes:
        measurement = outcome["measurement"]
        assert outcome["judgement"]["verdict"] in {"no-baseline", "incomparable", "unsteady"}
        # What others do to this machine is no fault of the suite.
        problems = {problem["code"] for problem in measurement["problems"]}
        assert problems <= {"disturbed", "drift", "implausible-speedup"}
        dtype = {"fp32": "float32", "bf16": "bfloat16"}[outcome["case"]["precision"]]
        assert measurement["conditions"]["dtype"] == dtype
        run = measurement["runs"][0]
        assert len(run["step_seconds"]) == 150
        assert len(run["ranks"]) == measurement["conditions"]["world_size"]
        assert_losses_fell(run)
        assert (measurement["speedup"] is not None) == (len(run["ranks"]) == 2)
