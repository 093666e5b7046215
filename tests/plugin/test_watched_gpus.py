"""GPUs are looked at while ranks run: through the plugin, on a driver that is made up."""

from __future__ import annotations

import json
import os
import stat

import pytest

from tests.helpers.fake_suite import FAKES, TESTS, Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


ID = "net-torch-fp32-bs4-1n1g"
GPU = {
    "uuid": "GPU-1", "used": 0, "processes": [], "process_use": [], "clock": 1500,
    "max_clock": 2000, "reasons": 0, "temperature": 60,
}  # fmt: skip


def on_a_gpu(suite: Suite, **told: object) -> None:
    smi = suite.path / "bin" / "nvidia-smi"
    smi.parent.mkdir(exist_ok=True)
    smi.write_text("#!/bin/sh\necho Tesla V100-SXM2-32GB, 32510, 450.80.02, 7.0\n")
    smi.chmod(smi.stat().st_mode | stat.S_IXUSR)
    (suite.path / "nvml.json").write_text(json.dumps([{**GPU, **told}]))
    path = (FAKES / "nvml", os.environ.get("PYTHONPATH", ""))
    suite.env(
        PATH=f"{smi.parent}{os.pathsep}{os.environ['PATH']}",
        PYTHONPATH=os.pathsep.join(map(str, path)),
        FAKE_NVML=suite.path / "nvml.json",
        FAKE_WALL_S=1.6,
    )
    suite.write(TESTS.replace('["1n1c", "1n2c"]', '"1n1g"'))


def test_clocks_are_in_the_outcome(suite: Suite):
    on_a_gpu(suite)
    _, outcomes = suite.outcomes("--dlperf-runs=1")
    [run] = outcomes[ID]["measurement"]["runs"]
    assert run["disturbed"] == ""
    assert run["extras"]["gpu_sm_clock_share"] == 0.75
    assert (suite.path / run["folder"] / "gpus.jsonl").exists()


def test_runs_on_a_throttled_gpu_are_repeated_and_then_incomparable(suite: Suite):
    on_a_gpu(suite, reasons=0x40, temperature=92)
    _, outcomes = suite.outcomes("--dlperf-runs=1", "--dlperf-max-runs=1")
    assert outcomes[ID]["judgement"]["verdict"] == "incomparable"
    [detail] = outcomes[ID]["judgement"]["details"]
    assert "GPU 0 was throttled by hardware thermal slowdown" in detail
    assert len(outcomes[ID]["measurement"]["runs"]) == 3
