"""Real training under Paddle's launcher: what is measured, what is wrong, what is left.

Two sessions: one whose training is right, and one with a perf test for each fault.
"""

from __future__ import annotations

import pytest

from tests.helpers.one_session import OneSession
from tests.paddle.conftest import paddle_session

pytestmark = pytest.mark.paddle
SECRET = "gRtz81-hidden"
#: Each with the sentence that must name it.
FAULTS = {
    "raises": "rank 1: ValueError: boom in step",
    "killed": "rank 1 stopped at iteration 4 of 30, without a word",
    "launcher-killed": "the launcher was killed by signal 9",
    "not-averaged": "gradients are not averaged",
}


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """A case of two ranks, with its one-device parent, and a secret in the environment."""
    return paddle_session(
        tmp_path_factory.mktemp("right"), {"net": {}}, environment={"SECRET_OF_MINE": SECRET}
    )


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """Every fault, and what Paddle cannot compute on a CPU."""
    faults = {
        fault.replace("-", "_"): {
            "options": {"fault": fault}, "timeout_s": 60.0, "speedup": None,
            "launcher": "paddle.distributed.launch",
        }
        for fault in FAULTS
    }  # fmt: skip
    low = {p: {"layout": "1n1c", "precision": p} for p in ("bf16", "amp")}
    # On a CPU without instructions for bf16 such a case is left out unless it is asked for.
    asked = "--dlperf-precision=fp32,bf16,amp"
    return paddle_session(tmp_path_factory.mktemp("wrong"), faults | low, asked)


def test_two_ranks_train_and_are_measured(right: OneSession):
    assert right.exit_code == 0
    outcome = right["net"].outcome
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
    right["net"].assert_nothing_left()
    assert right.folder.ours() == []


def test_no_file_of_a_run_holds_the_environment(right: OneSession):
    written = [path for path in right.folder.path.rglob("*") if path.is_file()]
    assert any(path.name == "rank00001.jsonl" for path in written)
    assert [path for path in written if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("fault", FAULTS)
def test_what_goes_wrong_is_named_and_nothing_is_left(wrong: OneSession, fault: str):
    assert wrong.exit_code == 1
    ended = wrong[fault.replace("-", "_")]
    ended.assert_error(FAULTS[fault])
    if fault == "raises":
        assert 'raise ValueError("boom in step")' in ended.reason
    assert wrong.folder.ours() == []


def test_bf16_on_a_cpu_is_not_run_since_paddle_would_compute_in_fp32(wrong: OneSession):
    low = [wrong["bf16"], wrong["amp"]]
    assert [one.verdict for one in low] == ["not-run", "not-run"]
    assert "float32" in low[0].reason
    assert all(one.outcome["measurement"] is None for one in low)
