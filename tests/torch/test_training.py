"""Real training under torchrun: what is measured, and what is found to be wrong.

Two sessions: one whose trainings are right, which many tests look at, and one with a case for
each fault. Ranks that die later, and launchers, are in tests/faults.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.leaks import files_with, open_to_others, process_lists
from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch

SECRET = "hunter2-of-the-environment"
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
#: What is wrong with a training in one rank, and what its error says.
OF_ONE = {
    "raises-in-build": "RuntimeError: boom in build",
    "returns-nothing": "must return the function",
    "no-loss": "step() returned NoneType",
    "flat": "the loss did not fall",
    "nan": "the loss is nan",
    "wrong-batch": "declares a batch of 8",
    "shrinking-batch": "the model's input has 3 rows, and a whole one 8",
    "wrong-dtype": "the case names fp32",
}
#: The same for two ranks: these are caught although a training in one rank would be right.
OF_TWO = {
    "not-averaged": "gradients are not averaged",
    "undeclared": "no replicated parameters were declared",
    "raises": "rank 1: ValueError: boom in step",
    "raises-in-build-of-one": "rank 1: RuntimeError: boom in build of one",
    "exits-in-build": "rank 1: SystemExit: no data here",
}

#: Faults that are caught in the way of one that the gate has, here or in tests/faults.
NIGHTLY = {
    "raises",
    "returns-nothing",
    "no-loss",
    "shrinking-batch",
    "raises-in-build-of-one",
    "exits-in-build",
}
TOKENS = {"workload": "workloads:tokens", "unit": "tokens"}


def named(fault: str) -> str:
    return fault.replace("-", "_")


def gate_and_nightly(faults: dict[str, str]) -> list[Any]:
    return [
        pytest.param(fault, marks=pytest.mark.nightly if fault in NIGHTLY else ())
        for fault in faults
    ]


def run_with_secret(
    path: Path, tests: dict[str, dict[str, Any]], *arguments: str
) -> tuple[OneSession, set[str]]:
    """Run a session with a secret in its environment; return the command lines that had it."""
    with process_lists(SECRET) as listed:
        session = run_together(
            path, tests, "-v", "--junit-xml=junit.xml", *arguments,
            workloads=HERE, environment={"SECRET_TOKEN": SECRET},
        )  # fmt: skip
    return session, listed


def check_no_leak(session: OneSession, listed: set[str]) -> None:
    path = session.folder.path
    assert listed == set()
    assert SECRET not in session.output
    assert list(path.glob(".dlperf/*/*/run1/rank00001.jsonl"))
    assert (path / "junit.xml").exists()
    assert files_with(SECRET, path) == []
    assert open_to_others(path / ".dlperf") == []


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[OneSession, set[str]]:
    """Two ranks in float32, repeated and compared with one rank; and two in bfloat16."""
    return run_with_secret(
        tmp_path_factory.mktemp("trained"),
        {
            "fp32": {"runs": 2, "max_runs": 4},
            "bf16": {"precision": "bf16", "warmup_s": 1.0},
        },
        # On a CPU without instructions for bf16 it is trained where it is named.
        "-k", "fp32 or bf16",
        "--update-baselines", "--dlperf-reason=first", "--dlperf-html=r.html", "--dlperf-md=r.md",
    )  # fmt: skip


@pytest.mark.smoke
class TestTwoRanks:
    @pytest.mark.parametrize("precision", DTYPES)
    def test_are_measured(self, trained: tuple[OneSession, set[str]], precision: str):
        session, _ = trained
        assert session.exit_code == 0, session.output
        measurement = session[precision].measurement
        assert measurement["conditions"]["dtype"] == DTYPES[precision]
        assert measurement["conditions"]["input_shapes"] == [[8, 32]]
        assert measurement["conditions"]["parameter_count"] == 32 * 64 + 64 + 64 * 4 + 4
        assert measurement["speedup"] > 0
        assert measurement["peak_memory_bytes"] > 10**7
        assert measurement["runs"]
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
        session[precision].assert_nothing_left()

    def test_warm_up_for_the_seconds_that_the_case_names(
        self, trained: tuple[OneSession, set[str]]
    ):
        session, _ = trained
        options = {name: session[name].measurement["conditions"]["options"] for name in DTYPES}
        assert options["bf16"]["warmup_s"] == 1.0
        assert "warmup_s" not in options["fp32"]
        [run] = session["bf16"].measurement["runs"][:1]
        for rank in run["ranks"]:
            file = Path(run["folder"]) / f"rank{rank['rank']:05}.jsonl"
            lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
            moments = {line["record"]: line["time"] for line in lines if "time" in line}
            assert moments["window"] - moments["first_step"] > 1.0

    def test_are_repeated_and_stored(self, trained: tuple[OneSession, set[str]]):
        session, _ = trained
        measurement = session["fp32"].measurement
        assert len([*measurement["runs"], *measurement["disturbed_runs"]]) >= 2
        stored = session.folder.path.glob("baselines/*/*/*.json")
        assert sorted(path.parent.name for path in stored) == ["bf16", "fp32"]
        assert session.folder.ours() == []

    def test_are_in_every_report(self, trained: tuple[OneSession, set[str]]):
        session, _ = trained
        path = session.folder.path
        page = (path / "r.html").read_text(encoding="utf-8")
        summary = (path / "r.md").read_text(encoding="utf-8")
        for precision in DTYPES:
            case = session[precision].outcome["case"]["id"]
            assert case in page
            assert case in summary

    def test_leave_no_secret_in_a_file_or_a_process_list(
        self, trained: tuple[OneSession, set[str]]
    ):
        check_no_leak(*trained)


@pytest.fixture(scope="module")
def wrong(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[OneSession, set[str]]:
    """Every fault that is asked for, trainings slowed on purpose, and some that cannot be."""
    alone = {"layout": "1n1c"}
    asked = {
        item.callspec.params["fault"]
        for item in request.session.items
        if item.module is request.module and "fault" in item.fixturenames
    }
    tests: dict[str, dict[str, Any]] = {
        named(fault): {**alone, "options": {"fault": fault}} for fault in OF_ONE if fault in asked
    }
    tests |= {
        named(fault): {
            "options": {"fault": fault}, "launcher": "torchrun", "speedup": None,
            "timeout_s": 240.0,
        }
        for fault in OF_TWO if fault in asked
    }  # fmt: skip
    tests |= {
        "amp": {**alone, "precision": "amp"},
        "fine": alone,
        "too_large_for_one": {"options": {"fault": "too-large-for-one"}},
        "tokens_unsaid": {**alone, **TOKENS},
        "tokens_of_marker": {**TOKENS, "work": 512},
        "tokens_of_build": {**alone, **TOKENS, "options": {"says": "in build"}},
        "tokens_of_steps": {**alone, **TOKENS, "options": {"says": "in each step"}},
        "slowed": {**alone, "options": {"pace_s": 0.01}},
    }
    path = tmp_path_factory.mktemp("wrong")
    return run_with_secret(path, tests, "--dlperf-inject=slowed-*:100%")


@pytest.mark.parametrize("fault", gate_and_nightly(OF_ONE))
def test_a_training_that_is_wrong_is_an_error_whatever_its_speed(
    wrong: tuple[OneSession, set[str]], fault: str
):
    ended = wrong[0][named(fault)]
    ended.assert_error(OF_ONE[fault])
    assert "output.log" in ended.reason
    assert ended.outcome["measurement"] is None


def test_a_model_that_is_too_large_for_one_device_is_measured_on_two(
    wrong: tuple[OneSession, set[str]],
):
    ended = wrong[0]["too_large_for_one"]
    measurement = ended.measurement
    assert len(measurement["runs"][0]["ranks"]) == 2
    assert measurement["speedup"] is None
    notes = {problem["code"]: problem["message"] for problem in measurement["problems"]}
    assert "CUDA out of memory. Tried to allocate 160.00 GiB" in notes["speedup-unknown"]
    ended.assert_nothing_left()


def test_tokens_that_nobody_counts_are_an_error(wrong: tuple[OneSession, set[str]]):
    """A batch of 8 sequences was 8 tokens before: a rate 64 times too low."""
    wrong[0]["tokens_unsaid"].assert_error("nothing says how many tokens a rank trains")


@pytest.mark.parametrize(
    ("name", "of_iteration", "condition"),
    [("of_marker", 2 * 512, 512), ("of_build", 512, 512), ("of_steps", 512.5, None)],
)
def test_tokens_are_counted_as_said(
    wrong: tuple[OneSession, set[str]], name: str, of_iteration: float, condition: int | None
):
    measurement = wrong[0][f"tokens_{name}"].measurement
    assert measurement["unit"] == "tokens"
    assert measurement["conditions"]["options"].get("work") == condition
    for run in measurement["runs"]:
        seconds = max(rank["seconds"] for rank in run["ranks"])
        assert run["throughput"] == pytest.approx(20 * of_iteration / seconds)


@pytest.mark.parametrize("fault", gate_and_nightly(OF_TWO))
def test_ranks_that_do_not_train_one_model_or_die(wrong: tuple[OneSession, set[str]], fault: str):
    assert wrong[0].exit_code == 1
    wrong[0][named(fault)].assert_error(OF_TWO[fault])


def test_a_precision_without_kernel_is_known_before_anything_starts(
    wrong: tuple[OneSession, set[str]],
):
    amp = wrong[0]["amp"]
    assert amp.verdict == "not-run"
    assert amp.ended != "failed"
    assert "CPU" in amp.reason
    assert amp.outcome["measurement"] is None
    assert not list(wrong[0].folder.path.glob(".dlperf/*/amp*/run*"))


def test_the_session_goes_on_after_faults(wrong: tuple[OneSession, set[str]]):
    fine = wrong[0]["fine"]
    assert fine.measurement["conditions"]["dtype"] == "float32"
    # Skipped where others used the machine: then its speed is not judged.
    assert fine.ended != "failed"
    assert wrong[0].folder.ours() == []


def test_injection_makes_steps_longer_for_real(wrong: tuple[OneSession, set[str]]):
    slowed = wrong[0]["slowed"].measurement
    assert slowed["inject"] == 1
    # A step sleeps for its pace, and as long again; no machine wakes it earlier.
    for run in slowed["runs"]:
        assert min(run["step_seconds"][10:]) > 0.02
    assert wrong[0]["fine"].measurement["inject"] == 0


def test_a_session_with_errors_leaves_no_secret(wrong: tuple[OneSession, set[str]]):
    check_no_leak(*wrong)
