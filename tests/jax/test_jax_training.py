"""Real training in JAX, in two processes and in one that drives two devices.

Two sessions: one whose trainings are right, and one with a perf test for each fault.
"""

from __future__ import annotations

import pytest

from tests.helpers.one_session import OneSession
from tests.jax.conftest import jax_session
from tests.jax.workloads import SLOW_S

pytestmark = pytest.mark.jax
#: Each with its keys and the sentence that must name it.
FAULTS = {
    "killed": ({}, "rank 1 stopped at iteration 4 of 30, without a word"),
    "not-averaged": ({}, "gradients are not averaged over the ranks"),
    "not-averaged-in-one": ({"devices_per_process": 2}, "differ between devices of one process"),
    "half": ({"layout": "1n1c"}, "this run did it in bfloat16 100%. Give parameters and batch"),
}
HUNG = "stopped at iteration 4 of 30, without a word: it was in misbehave ("
MORE_FAULTS = {
    "raises": ({}, "rank 1: ValueError: boom in step"),
    "undeclared": ({"devices_per_process": 2}, "no replicated parameters were declared"),
    "donated": ({"layout": "1n1c"}, "the declared parameters were donated to a later step"),
    # A hang is seen when its timeout has passed.
    "sleeps": ({"timeout_s": 60.0}, f"timed out after 60 s; rank 1 {HUNG}"),
    "sleeps-in-one": (
        {"timeout_s": 30.0, "devices_per_process": 2}, f"timed out after 30 s; rank 0 {HUNG}"
    ),
}  # fmt: skip
INJECTED = 0.3
TWO = {"two": {}, "devices": {"devices_per_process": 2}}


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    one = {"layout": "1n1c"}
    tests = {
        **TWO,
        "half": {**one, "precision": "bf16"},
        "slow": {**one, "options": {"fault": "slow"}},
        "asynchronous": {
            **one, "workload": "workloads:asynchronous", "loss": "finite",
            "batch_size_per_device": 256,
        },
        "program": {"command": ["python", "-m", "marked"], "devices_per_process": 2},
    }  # fmt: skip
    injected = f"--dlperf-inject=slow-*:{INJECTED:.0%}"
    return jax_session(tmp_path_factory.mktemp("right"), tests, injected)


def session_of(faults: dict[str, tuple[dict[str, object], str]], path) -> OneSession:
    tests = {
        name.replace("-", "_"): {
            "options": {"fault": name.removesuffix("-in-one")}, "timeout_s": 240.0, **keys
        }
        for name, (keys, _) in faults.items()
    }  # fmt: skip
    return jax_session(path, tests)


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    return session_of(FAULTS, tmp_path_factory.mktemp("wrong"))


@pytest.fixture(scope="module")
def more_wrong(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    return session_of(MORE_FAULTS, tmp_path_factory.mktemp("wrong"))


@pytest.mark.parametrize("name", TWO)
def test_two_devices_train_and_are_measured(right: OneSession, name: str):
    assert right.exit_code == 0, right.output
    measurement = right[name].measurement
    conditions = measurement["conditions"]
    assert conditions["launcher"] == ("jax-processes" if name == "two" else "local")
    assert conditions["world_size"] == 2
    assert conditions["input_shapes"] == [[8, 32], [8]]
    assert conditions["parameter_count"] == 32 * 64 + 64 * 4
    assert conditions["dtype"] == "float32"
    run = measurement["runs"][-1]
    assert [rank["rank"] for rank in run["ranks"]] == ([0, 1] if name == "two" else [0])
    assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])
    seconds = max(rank["seconds"] for rank in run["ranks"])
    assert run["throughput"] == pytest.approx(20 * 16 / seconds)
    assert set(run["canary"]) == {
        "all_reduce_gb_per_s",
        "copy_gb_per_s",
        "matmul_gflop_per_s",
    }
    # Forward once, backward to both weights and to the hidden activations
    flops = 2 * 8 * (2 * 32 * 64 + 3 * 64 * 4)
    assert run["extras"]["flop_per_s_per_device"] == pytest.approx(20 * flops / seconds)
    assert run["extras"]["compile_seconds"] > 0
    assert run["extras"]["recompiles"] == run["extras"]["recompiles_in_window"] == 0
    assert run["scaling"]["all_reduce_gb_per_s"]["65536"] > 0
    outcome = right[name].outcome
    assert outcome["environment"]["software"]["backend"] == ("gloo" if name == "two" else "xla")
    right[name].assert_nothing_left()


def test_a_process_of_two_devices_is_another_case_and_another_condition(right: OneSession):
    one, two = (right[name] for name in ("devices", "two"))
    assert one.measurement["conditions"]["options"] == {"devices_per_process": 2}
    assert two.measurement["conditions"]["options"] == {}


def test_bfloat16_is_computed_where_the_case_names_it(right: OneSession):
    assert right["half"].measurement["conditions"]["dtype"] == "bfloat16"


def test_a_slow_step_is_seen_in_every_span(right: OneSession):
    run = right["slow"].measurement["runs"][-1]
    assert min(run["step_seconds"]) >= SLOW_S


def test_injection_makes_steps_longer_for_real(right: OneSession):
    slow = right["slow"].measurement
    assert slow["inject"] == INJECTED
    assert min(slow["runs"][-1]["step_seconds"][10:]) >= (1 + INJECTED) * SLOW_S
    assert right["two"].measurement["inject"] == 0


def test_a_step_that_returns_before_its_work_is_done_is_waited_for(right: OneSession):
    run = right["asynchronous"].measurement["runs"][-1]
    assert run["metrics"]["returned_early"]["value"] > 0.5, "the step itself waits"
    assert run["metrics"]["still_working"]["value"] == 0


def test_marked_steps_of_a_program_wait_for_its_devices(right: OneSession):
    measurement = right["program"].measurement
    run = measurement["runs"][-1]
    assert run["metrics"]["still_working"]["value"] == 0
    seconds = max(rank["seconds"] for rank in run["ranks"])
    assert run["throughput"] == pytest.approx(20 * 16 / seconds)
    assert measurement["conditions"]["options"]["devices_per_process"] == 2
    assert right["program"].outcome["environment"]["software"]["jax"]


def check(session: OneSession, name: str, message: str) -> None:
    assert session.exit_code == 1
    session[name.replace("-", "_")].assert_error(message)
    assert session.folder.ours() == []


@pytest.mark.parametrize("name", FAULTS)
def test_what_goes_wrong_is_named_and_nothing_is_left(wrong: OneSession, name: str):
    check(wrong, name, FAULTS[name][1])


@pytest.mark.nightly  # a launch for each; in CI PyTorch's end so
@pytest.mark.parametrize("name", MORE_FAULTS)
def test_what_else_goes_wrong(more_wrong: OneSession, name: str):
    check(more_wrong, name, MORE_FAULTS[name][1])


@pytest.mark.nightly  # its session is that of the test before
def test_the_rank_that_waits_for_one_that_hangs_is_named_as_such(more_wrong: OneSession):
    reason = more_wrong["sleeps"].reason
    assert (
        "; rank 0 stopped at iteration 4 of 30, without a word: it waited for the others in"
        in reason
    )
