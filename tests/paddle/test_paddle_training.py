"""Real training under Paddle's launcher: what is measured, what is wrong, what is left."""

from __future__ import annotations

import pytest

from pytest_dlperf.launch.lease import lease_holder
from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.paddle


def test_two_ranks_train_and_are_measured(folder: Folder):
    result, [outcome] = folder.run()
    assert result.ret == 0
    measurement = outcome["measurement"]
    conditions = measurement["conditions"]
    assert conditions["dtype"] == "float32"
    assert conditions["input_shapes"] == [[8, 32]]
    # Linear, batch normalisation without its running statistics, linear.
    assert conditions["parameter_count"] == 33 * 64 + 2 * 64 + 65 * 4
    assert measurement["speedup"] > 0
    for run in measurement["runs"]:
        seconds = max(rank["seconds"] for rank in run["ranks"])
        assert run["throughput"] == pytest.approx(20 * 16 / seconds)
        assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
        assert set(run["canary"]) == {
            "all_reduce_gb_per_s",
            "copy_gb_per_s",
            "matmul_gflop_per_s",
        }
        scaling = run["scaling"]
        assert scaling["method"] == "steps without averaging"
        assert scaling["collective"] == "all-reduce"
        assert 0 <= scaling["collectives_share"] <= 1
        assert [rank["rank"] for rank in scaling["ranks"]] == [0, 1]
        assert all(rank["own_seconds"] > 0 for rank in scaling["ranks"])
        assert scaling["all_reduce_gb_per_s"]["65536"] > 0
    assert outcome["environment"]["software"]["backend"] == "gloo"
    assert folder.ours() == []


def test_no_file_of_a_run_holds_the_environment(folder: Folder, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SECRET_OF_MINE", "gRtz81-hidden")
    result, _ = folder.run()
    assert result.ret == 0
    written = [path for path in folder.path.rglob("*") if path.is_file()]
    assert any(path.name == "rank00001.jsonl" for path in written)
    assert [path for path in written if b"gRtz81-hidden" in path.read_bytes()] == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises", "rank 1: ValueError: boom in step"),
        ("killed", "rank 1 stopped at iteration 4 of 30, without a word"),
        ("launcher-killed", "the launcher was killed by signal 9"),
        ("not-averaged", "gradients are not averaged"),
    ],
)
def test_what_goes_wrong_is_named_and_nothing_is_left(folder: Folder, fault: str, message: str):
    folder.write(options={"fault": fault}, timeout_s=60.0, launcher="paddle.distributed.launch")
    result, [outcome] = folder.run()
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert message in outcome["judgement"]["reason"]
    if fault == "raises":
        assert 'raise ValueError("boom in step")' in outcome["judgement"]["reason"]
    assert folder.ours() == []
    assert lease_holder() is None


def test_bf16_on_a_cpu_is_not_run_since_paddle_would_compute_in_fp32(folder: Folder):
    folder.write(layout="1n1c", precision=["bf16", "amp"])
    _, outcomes = folder.run()
    assert [o["judgement"]["verdict"] for o in outcomes] == ["not-run", "not-run"]
    assert "float32" in outcomes[0]["judgement"]["reason"]
    assert all(o["measurement"] is None for o in outcomes)
