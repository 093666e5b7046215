"""ResNet-50 trains at tiny size under Horovod: fp32 and bf16, one and two processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.tensorflow
ROOT = Path(__file__).parents[2]


def test_resnet50_trains_at_tiny_size(tmp_path):
    results = tmp_path / "r.json"
    command = [
        sys.executable, "-m", "pytest", "perf_tests", "-p", "no:cacheprovider",
        "-k", "resnet50 and tensorflow", "--cpus=1,2", "--dlperf-runs=1",
        f"--dlperf-json={results}", f"--dlperf-workdir={tmp_path / 'work'}",
        f"--dlperf-baselines={tmp_path / 'baselines'}",
    ]  # fmt: skip
    done = subprocess.run(
        command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout
    outcomes = json.loads(results.read_text(encoding="utf-8"))["outcomes"]
    found = {
        (o["case"]["precision"], o["measurement"]["conditions"]["world_size"]) for o in outcomes
    }
    assert found == {(precision, ranks) for precision in ("fp32", "bf16") for ranks in (1, 2)}
    for outcome in outcomes:
        measurement = outcome["measurement"]
        conditions = measurement["conditions"]
        dtype = {"fp32": "float32", "bf16": "bfloat16"}[outcome["case"]["precision"]]
        assert conditions["dtype"] == dtype
        assert conditions["input_shapes"] == [[32, 32, 32, 3]]
        run = measurement["runs"][-1]
        assert len(run["step_seconds"]) == 150
        assert len(run["ranks"]) == conditions["world_size"]
        assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
        assert (measurement["speedup"] is not None) == (len(run["ranks"]) == 2)
