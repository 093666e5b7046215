"""Real training under torchrun: what is measured, and what is found to be wrong."""

from __future__ import annotations

import pytest

from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch


def test_two_ranks_train_and_are_measured(folder: Folder):
    folder.write(precision=["fp32", "bf16"], runs=2)
    result, outcomes = folder.run("--update-baselines", "--dlperf-reason=first")
    assert result.ret == 0
    for outcome, dtype in zip(outcomes, ("float32", "bfloat16"), strict=True):
        measurement = outcome["measurement"]
        assert measurement["conditions"]["dtype"] == dtype
        assert measurement["conditions"]["input_shapes"] == [[8, 32]]
        assert measurement["conditions"]["parameter_count"] == 32 * 64 + 64 + 64 * 4 + 4
        assert measurement["speedup"] > 0
        assert measurement["peak_memory_bytes"] > 10**7
        for run in measurement["runs"]:
            assert len(run["step_seconds"]) == 30
            assert [rank["rank"] for rank in run["ranks"]] == [0, 1]
            seconds = max(rank["seconds"] for rank in run["ranks"])
            assert run["throughput"] == pytest.approx(20 * 16 / seconds)
            assert sum(run["step_seconds"][10:]) == pytest.approx(seconds)
            assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
            assert set(run["canary"]) == {
                "all_reduce_gb_per_s",
                "copy_gb_per_s",
                "matmul_gflop_per_s",
            }
    assert len(list(folder.path.glob("baselines/*/net/*.json"))) == 2
    assert folder.ours() == []


def test_injection_makes_steps_longer_for_real(folder: Folder):
    folder.write(layout="1n1c", options={"pace_s": 0.01})
    _, [slowed] = folder.run("--dlperf-inject=100%")
    assert slowed["measurement"]["inject"] == 1
    # A step sleeps for its pace, and as long again; no machine wakes it earlier.
    for run in slowed["measurement"]["runs"]:
        assert min(run["step_seconds"][10:]) > 0.02


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises-in-build", "RuntimeError: boom in build"),
        ("returns-nothing", "must return the function"),
        ("no-loss", "step() returned NoneType"),
        ("flat", "the loss did not fall"),
        ("nan", "the loss is nan"),
        ("wrong-batch", "declares a batch of 8"),
        ("wrong-dtype", "the case names fp32"),
    ],
)
def test_a_training_that_is_wrong_is_an_error_whatever_its_speed(
    folder: Folder, fault: str, message: str
):
    folder.write(layout="1n1c", options={"fault": fault})
    result, [outcome] = folder.run()
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert message in outcome["judgement"]["reason"]
    assert "output.log" in outcome["judgement"]["reason"]
    assert outcome["measurement"] is None


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("not-averaged", "gradients are not averaged"),
        ("undeclared", "no replicated parameters were declared"),
    ],
)
def test_ranks_that_do_not_train_one_model(folder: Folder, fault: str, message: str):
    folder.write(options={"fault": fault}, launcher="torchrun")
    # The one-device parent has nobody to differ from: it is the two ranks that are wrong.
    result, [outcome] = folder.run()
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert message in outcome["judgement"]["reason"]


def test_a_workload_that_is_not_there(folder: Folder):
    folder.write(layout="1n1c")
    text = (folder.path / "test_net.py").read_text(encoding="utf-8")
    (folder.path / "test_net.py").write_text(text.replace("workloads:build", "nowhere:build"))
    result, [outcome] = folder.run()
    assert result.ret == 1
    assert "no module named 'nowhere'" in outcome["judgement"]["reason"]


def test_a_precision_without_kernel_is_known_before_anything_starts(folder: Folder):
    folder.write(layout="1n1c", precision=["amp", "fp32"])
    result, [amp, fp32] = folder.run()
    assert result.ret == 0
    assert amp["judgement"]["verdict"] == "not-run"
    assert amp["measurement"] is None
    assert fp32["measurement"] is not None
    assert "CPU" in amp["judgement"]["reason"]
