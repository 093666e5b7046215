"""ResNet-50 trains at tiny size under Horovod: fp32 and bf16, one and two processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.suites import train_suites

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("fp32", "float32"),
        # Under Horovod CI trains once; how bfloat16 is counted is in test_models.py.
        pytest.param("bf16", "bfloat16", marks=pytest.mark.nightly),
    ],
)
def test_resnet50_trains_at_tiny_size(tmp_path: Path, precision: str, dtype: str):
    done, outcomes = train_suites(
        tmp_path, f"resnet50 and tensorflow and {precision}", "--cpus=1,2"
    )
    assert done.returncode == 0, done.stdout
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
