"""The sharded classifier gives the losses and the weights of an unsharded one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.paddle
SCRIPT = Path(__file__).with_name("paddle_arcface_ranks.py")
OVERFLOW = Path(__file__).with_name("paddle_overflow_ranks.py")


def test_two_ranks_give_the_loss_of_one_on_the_same_global_batch(tmp_path):
    launch = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node=2"]
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parents[2]), "OMP_NUM_THREADS": "1"}
    for launcher in ([sys.executable], [*launch, f"--log_dir={tmp_path / 'logs'}"]):
        subprocess.run(
            [*launcher, str(SCRIPT), str(tmp_path)], env=environment, check=True, timeout=120
        )
    alone, first, second = (
        json.loads((tmp_path / name).read_text(encoding="utf-8"))
        for name in ("1-0.json", "2-0.json", "2-1.json")
    )
    assert first["losses"] == pytest.approx(second["losses"], rel=1e-14)
    assert first["losses"] == pytest.approx(alone["losses"], rel=1e-8)
    assert alone["losses"][-1] < alone["losses"][0]
    assert first["trunk"] == pytest.approx(alone["trunk"], rel=1e-8)
    assert (first["classes"], second["classes"], alone["classes"]) == (50, 51, 101)
    sharded = first["classifier"] + second["classifier"]
    assert sharded == pytest.approx(alone["classifier"], rel=1e-8)


def test_an_overflow_in_one_shard_makes_both_ranks_skip_the_step(tmp_path):
    launch = [sys.executable, "-m", "paddle.distributed.launch", "--nproc_per_node=2"]
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parents[2]), "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [*launch, f"--log_dir={tmp_path / 'logs'}", str(OVERFLOW), str(tmp_path)],
        env=environment, check=True, timeout=120,
    )  # fmt: skip
    first, second = (
        json.loads((tmp_path / name).read_text(encoding="utf-8")) for name in ("0.json", "1.json")
    )
    assert first == second
    scales = first["scales"]
    assert scales == [scales[0], scales[0], scales[0] / 2, scales[0] / 2]
    assert first["losses"][1] < first["losses"][0]
