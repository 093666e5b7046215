"""ResNet-50 trains at tiny size under Horovod: fp32 and bf16, one and two processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.tensorflow
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("fp32", "float32"),
        # Under Horovod CI trains once; how bfloat16 is counted is in test_models.py.
        pytest.param("bf16", "bfloat16", marks=pytest.mark.nightly),
    ],
)
def test_resnet50_trains_at_tiny_size(tmp_path, precision: str, dtype: str):
    results = tmp_path / "r.json"
    command = [
        sys.executable, "-m", "pytest", "perf_tests", "-p", "no:cacheprovider",
        "-p", "tests.helpers.no_repeats", "-k", f"resnet50 and tensorflow and {precision}",
        "--cpus=1,2", "--dlperf-runs=1", "--dlperf-max-runs=1",
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
    assert found == {(precision, ranks) for ranks in (1, 2)}
    for outcome in outcomes:
        measurement = outcome["measurement"]
        conditions = measurement["conditions"]
        assert conditions["dtype"] == dtype
        assert conditions["input_shapes"] == [[32, 32, 32, 3]]
        run = measurement["runs"][-1]
        assert len(run["step_seconds"]) == 150
        assert len(run["ranks"]) == conditions["world_size"]
        assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
        assert (measurement["speedup"] is not None) == (len(run["ranks"]) == 2)
