"""Marks in a program of its own: nothing outside a case, the worker's records inside."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.core.wire import TURN_REPORTS, rank_file
from pytest_dlperf.measure.records import read_conflicts
from pytest_dlperf.worker.marked_device import device_of
from pytest_dlperf.worker.marks import Marks
from tests.helpers.marked_program import program, settings
from tests.helpers.simulated_gpu import records


def test_a_program_on_cpus_has_a_canary_of_its_host(tmp_path: Path):
    """It was judged without one: a slower clock was taken for slower code."""
    program(tmp_path, "for _ in range(12):\n    with step() as s: s.loss(1.0)")
    lines = [json.loads(one) for one in (tmp_path / "rank00000.jsonl").read_text().splitlines()]
    order = [one["record"] for one in lines]
    first, last = (i for i, kind in enumerate(order) if kind == "canary")
    assert order.index("first_step") < first < order.index("span")
    assert order.index("memory") < last < order.index("end")
    canaries = [lines[first], lines[last]]
    assert [one["when"] for one in canaries] == ["before", "after"]
    assert all(one["hash_gb_per_s"] > 0 for one in canaries)
    assert set(canaries[0]) == {"record", "rank", "when", "hash_gb_per_s", "time"}


def test_on_a_gpu_the_host_is_not_measured_for_it(tmp_path: Path):
    """A training on a GPU does not follow the host's clock."""
    on_gpu = settings(tmp_path)._replace(on_gpu=True).to_json()
    program(tmp_path, "for _ in range(12):\n    with step(): pass", DLPERF_MARK=on_gpu)
    assert "canary" not in records(tmp_path)


def test_a_canary_that_is_asked_for_and_cannot_be_is_an_error(tmp_path: Path):
    on_gpu = settings(tmp_path)._replace(on_gpu=True).to_json()
    text = """
        from pytest_dlperf.mark import canary
        try:
            canary()
        except RuntimeError:
            raise SystemExit(0)
        raise SystemExit("no error")
    """
    program(tmp_path, text, DLPERF_MARK=on_gpu)
    [failure] = records(tmp_path)["failure"]
    assert "canary() is for programs in PyTorch that have taken their GPU" in failure["message"]


def test_checks_that_only_pytorch_has_are_an_error_elsewhere(tmp_path: Path):
    text = """
        from pytest_dlperf.mark import checked
        try:
            checked([], fixed_batch=True)
        except TypeError:
            for _ in range(12):
                with step(): ...
    """
    jax = settings(tmp_path)._replace(framework="jax").to_json()
    program(tmp_path, text, DLPERF_MARK=jax)
    [failure] = records(tmp_path)["failure"]
    assert "checked is PyTorch's, and the case is of jax" in failure["message"]


def test_a_canary_asked_for_on_cpus_is_the_one_that_marks_have(tmp_path: Path):
    head = "from pytest_dlperf.mark import canary\ncanary()\n"
    text = f"{head}for _ in range(12):\n    with step(): pass"
    program(tmp_path, text)
    assert [one["when"] for one in records(tmp_path)["canary"]] == ["before", "after"]


def test_ranks_that_share_a_batch_each_do_a_part_of_it(tmp_path: Path):
    shared = settings(tmp_path)._replace(split=4).to_json()
    program(tmp_path, "for _ in range(12):\n    with step(work=6): pass", DLPERF_MARK=shared)
    assert {span["work"] for span in records(tmp_path)["span"]} == {1.5}


@pytest.mark.parametrize(
    ("said", "rows", "work"),
    [
        ({}, 3, 3),
        # Two GPUs of one process, and four that are two replicas
        ({"devices_per_process": 2}, 6, 6),
        ({"devices_per_process": 4, "split": 2}, 8, 8),
        # Two ranks that share a batch
        ({"split": 2}, 4, 2),
        ({"is_work_declared": True}, 8, 4),
    ],
)
def test_rows_of_a_loader_are_those_of_its_process(
    tmp_path: Path, said: dict[str, Any], rows: int, work: float
):
    variable = settings(tmp_path)._replace(**said).to_json()
    text = f"""
        from pytest_dlperf.worker.batch_rows import StepRows
        for i in range(12):
            with step() as s: s.rows(StepRows({rows}, 8, 1, 1))
        """
    program(tmp_path, text, DLPERF_MARK=variable)
    assert {span["work"] for span in records(tmp_path)["span"]} == {work}


def test_a_loss_on_the_cpu_is_kept_as_a_number(tmp_path: Path):
    """A tensor kept for each iteration holds the heap open around it, and memory grows."""
    marks = Marks(settings(tmp_path))

    class Loss:
        device = "cpu"

        def detach(self) -> Loss:
            return self

        def __float__(self) -> float:
            return 0.5

    class LossOnGpu(Loss):
        device = "cuda:0"
        is_copy = False

        def clone(self) -> LossOnGpu:
            copy = LossOnGpu()
            copy.is_copy = True
            return copy

        def __float__(self) -> float:
            raise AssertionError("waits for the GPU")

    marks.loss(Loss())
    marks.loss(LossOnGpu())
    number, tensor = marks._losses
    assert number == 0.5
    assert isinstance(number, float)
    assert isinstance(tensor, LossOnGpu)
    assert tensor.is_copy  # a CUDA graph writes every loss into the same memory


NUMBERS = """
import numpy as np
from decimal import Decimal
class Odd:
    dtype, shape = "complex64", ()
    def __float__(self): raise RuntimeError("no conversion")
class OnGpu:
    device, shape = "cuda:0", (3,)
    def clone(self): return self
"""
TENSOR = """
class Tensor:
    shape, dtype = (), "torch.int64"
    def __init__(self, value, device): self.value, self.device = value, device
    def detach(self): return self
    def clone(self): return Tensor(self.value, self.device)
    def __float__(self):
        assert self.device == "cpu" or is_over, "waits for the GPU within the window"
        return float(self.value)
is_over = False
"""


@pytest.mark.parametrize(
    "work",
    ["5", "5.0", "np.int64(5)", "np.float32(5)", "np.array(5)", "np.array([5])", "Decimal(5)"],
)
def test_the_work_of_a_step_is_any_number(tmp_path: Path, work: str):
    """A NumPy scalar ended the program after its last step, in an error of JSON."""
    text = f"""
        for i in range(12):
            with step({work}): pass
        """
    program(tmp_path, NUMBERS + "import warnings; warnings.simplefilter('error')\n", text)
    assert {span["work"] for span in records(tmp_path)["span"]} == {5}


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
@pytest.mark.parametrize("how", ["with step(lengths): pass", "with step() as s: s.work(lengths)"])
def test_a_tensor_is_the_work_of_a_step_and_is_not_waited_for(
    tmp_path: Path, device: str, how: str
):
    text = f"""
        for i in range(12):
            lengths = Tensor(5 + i, {device!r})
            is_over = i == 11
            {how}
        """
    program(tmp_path, TENSOR, text)
    assert [span["work"] for span in records(tmp_path)["span"]] == list(range(5, 17))


#: Each of them is a program of its own; the gate has one of each kind.
NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize(
    ("work", "says"),
    [
        ("0", "work=0;"),
        pytest.param("-8", "work=-8;", marks=NIGHTLY),
        ("True", "work=True;"),
        pytest.param("'8'", "work='8';", marks=NIGHTLY),
        ("[8]", "work=[8];"),
        ("float('nan')", "work=nan;"),
        pytest.param("float('inf')", "work=inf;", marks=NIGHTLY),
        pytest.param("np.float32('nan')", "work=nan;", marks=NIGHTLY),
        ("np.bool_(True)", "an array of bool"),
        pytest.param("np.array(['8'])", "an array of <U1", marks=NIGHTLY),
        ("np.ones(3)", "an array of shape [3]"),
        pytest.param("np.ones(0)", "an array of shape [0]", marks=NIGHTLY),
        ("Odd()", "Odd object at"),
    ],
)
def test_a_work_that_is_none_is_refused_in_its_step(tmp_path: Path, work: str, says: str):
    text = f"""
        for i in range(12):
            with step({work} if i == 3 else 8): pass
        print("the program goes on")
        """
    program(tmp_path, NUMBERS, text)
    found = records(tmp_path)
    [failure] = found["failure"]
    assert failure["code"] == "work-invalid"
    assert says in str(failure["message"])
    assert "span" not in found


@pytest.mark.parametrize("loss", ["None", "'low'", "[1.0, 2.0]", "Odd()", "OnGpu()"])
def test_a_loss_that_is_none_is_refused_and_ends_no_program(tmp_path: Path, loss: str):
    text = f"""
        for i in range(12):
            with step() as s: s.loss({loss} if i == 3 else 1.0)
        """
    program(tmp_path, NUMBERS, text)
    found = records(tmp_path)
    [failure] = found["failure"]
    assert failure["code"] == "step-returned-no-loss"
    assert "give a number, or a tensor of one element" in str(failure["message"])
    assert "span" not in found


def test_a_tensor_that_is_no_work_is_refused_after_the_window(tmp_path: Path):
    """What a GPU has computed is not waited for before."""
    text = """
        for i in range(12):
            is_over = i == 11
            with step(Tensor(i, "cuda:0")): pass
        """
    program(tmp_path, TENSOR, text)
    found = records(tmp_path)
    assert [failure["code"] for failure in found["failure"]] == ["work-invalid"]
    assert "end" not in found


def test_what_fails_after_the_last_step_is_the_ranks_failure(tmp_path: Path):
    """The rank was said to have gone without a word."""
    text = """
        class Loss:
            device = "cuda:0"
            def clone(self): return self
            def __float__(self): raise RuntimeError("the GPU is lost")
        try:
            for i in range(12):
                with step() as s: s.loss(Loss())
        except RuntimeError:
            raise SystemExit(0)
        raise SystemExit("no error")
        """
    program(tmp_path, text)
    [failure] = records(tmp_path)["failure"]
    assert failure["message"] == "RuntimeError: the GPU is lost"


def test_what_ends_the_program_between_two_steps_is_the_ranks_failure(tmp_path: Path):
    """The rank was said to have been killed, or to have left, above its own traceback."""
    text = """
        for i in range(12):
            if i == 5: raise ValueError("a bad batch")
            with step(): pass
        """
    with pytest.raises(subprocess.CalledProcessError):
        program(tmp_path, text)
    [failure] = records(tmp_path)["failure"]
    assert failure["message"] == "ValueError: a bad batch"


def test_an_error_of_a_forked_child_is_none_of_the_rank(tmp_path: Path):
    text = """
        for i in range(12):
            if i == 5 and os.fork() == 0: raise ValueError("a bad batch")
            with step(): pass
        """
    program(tmp_path, text)
    assert "failure" not in records(tmp_path)


def test_a_step_that_is_abandoned_counts_nothing(tmp_path: Path):
    text = """
        for i in range(14):
            held = step()
            held.__enter__()
            if i % 7 == 3: held.abandon()
            else: held.__exit__(None, None, None)
        """
    program(tmp_path, text)
    found = records(tmp_path)
    assert [span["work"] for span in found["span"]] == [4] * 12
    assert "failure" not in found


@pytest.mark.parametrize(
    ("said", "of_step", "work"),
    [
        ({}, "", 4),
        ({"is_work_declared": True}, "5", 5),
        ({"work": None, "unit": "tokens"}, "512", 512),
    ],
)
def test_the_work_of_a_step(tmp_path: Path, said: dict[str, Any], of_step: str, work: float):
    variable = settings(tmp_path)._replace(**said).to_json()
    text = f"for i in range(12):\n    with step({of_step}): pass"
    program(tmp_path, text, DLPERF_MARK=variable)
    assert {span["work"] for span in records(tmp_path)["span"]} == {work}


def test_a_first_step_that_begins_again_waits_for_one_turn(tmp_path: Path):
    """As Hugging Face's does where its batch had no room, and a smaller one is tried."""
    turn, reports = (tmp_path / name for name in (rank_file(0, "turn"), TURN_REPORTS))
    with contextlib.ExitStack() as stack:
        for fifo in (turn, reports):
            os.mkfifo(fifo)
            stack.callback(os.close, os.open(fifo, os.O_RDWR))
        turn.write_text("0\n12\n0\n")
        in_turns = settings(tmp_path)._replace(turns=True).to_json()
        text = """
            first = step().__enter__()
            first.abandon()
            for _ in range(12):
                with step() as s: s.loss(1.0)
        """
        program(tmp_path, text, DLPERF_MARK=in_turns)
        descriptor = os.open(reports, os.O_RDONLY | os.O_NONBLOCK)
        stack.callback(os.close, descriptor)
        lines = os.read(descriptor, 4096).decode().splitlines()
    assert [line.split()[1] for line in lines] == ["built", "ready", "done"]
    assert "end" in records(tmp_path)


def test_turns_that_cannot_be_reached_are_recorded_and_the_program_goes_on(tmp_path: Path):
    in_turns = settings(tmp_path)._replace(turns=True).to_json()
    text = """
        for _ in range(12):
            with step(): ...
        open("trained", "w").close()
    """
    program(tmp_path, f"os.chdir({str(tmp_path)!r})\n", text, DLPERF_MARK=in_turns)
    assert (tmp_path / "trained").exists()
    [failure] = records(tmp_path)["failure"]
    assert failure["code"] == "turns-unreachable"


def test_a_step_of_tokens_must_say_how_many(tmp_path: Path):
    """A batch counts samples: its size would be a wrong number of tokens."""
    variable = settings(tmp_path)._replace(work=None, unit="tokens").to_json()
    text = """
        for i in range(12):
            with step() as mark:
                mark.loss(1.0)
        print("the program goes on")
    """
    program(tmp_path, text, DLPERF_MARK=variable)
    found = records(tmp_path)
    assert [failure["code"] for failure in found["failure"]] == ["work-unknown"]
    assert "does not say how many tokens" in str(found["failure"][0]["message"])
    assert "span" not in found
    assert "end" not in found


def test_the_module_imports_nothing_and_does_nothing_outside_a_case():
    program = (
        "import sys; before = set(sys.modules);"
        "from pytest_dlperf.mark import step;"
        "print(*sorted(set(sys.modules) - before));"
        "\nwith step(work=3) as mark:\n    mark.loss(object())\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported, after_a_step = done.stdout.splitlines()
    assert set(imported.split()) <= {"__future__", "pytest_dlperf", "pytest_dlperf.mark"}
    assert after_a_step == imported


def test_steps_become_the_records_of_a_rank(tmp_path: Path):
    marks = Marks(settings(tmp_path))
    for index in range(20):
        with marks.step(index if index == 5 else None) as step:
            step.loss(2.0 - index / 100)
    found = records(tmp_path)
    spans = found["span"]
    assert [span["first_step"] for span in spans] == list(range(12))
    assert [span["work"] for span in spans] == [4, 4, 4, 4, 4, 5, 4, 4, 4, 4, 4, 4]
    assert all(span["seconds"] > 0 for span in spans)
    assert found["loss"][0]["values"] == [pytest.approx(2.0 - i / 100) for i in range(12)]
    window = sum(span["seconds"] for span in spans[2:])
    assert found["window"][0]["seconds"] == pytest.approx(window, rel=0.2, abs=0.01)
    assert found["memory"][0]["bytes"] > 1_000_000
    assert "end" in found


def test_time_between_steps_is_waiting_and_part_of_the_step(tmp_path: Path, monkeypatch):
    clock = iter(float(i) for i in range(1000))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    marks = Marks(settings(tmp_path))
    for _ in range(12):
        with marks.step(None):
            pass
    spans = records(tmp_path)["span"]
    # Three readings of the clock a step, one second apart.
    assert {(s["seconds"], s["data_wait_seconds"]) for s in spans[4:]} == {(3.0, 1.0)}
    assert spans[0]["data_wait_seconds"] == 0, "what built the program waited for no data"


def test_a_program_that_raises_says_so_in_the_records(tmp_path: Path):
    marks = Marks(settings(tmp_path))
    with pytest.raises(ValueError, match="boom"), marks.step(None):
        raise ValueError("boom")
    [failure] = records(tmp_path)["failure"]
    line = test_a_program_that_raises_says_so_in_the_records.__code__.co_firstlineno + 2
    assert failure["message"] == (
        f"ValueError: boom; the marked step of {__file__}:{line} did not end. Where the program "
        "goes on after that, catch the error within the step"
    )
    assert "in test_a_program_that_raises" in failure["traceback"]


def test_a_generator_of_steps_that_is_left_within_one_says_which(tmp_path: Path):
    """Its message was the name of the exception alone."""
    text = """
        def steps():
            while True:
                with step():
                    yield
        for index, _ in enumerate(steps()):
            if index == 11: break
    """
    program(tmp_path, text)
    [failure] = records(tmp_path)["failure"]
    assert failure["message"] == (
        "GeneratorExit: the marked step of <string>:6 did not end: the loop over its generator "
        "was left; mark the step in the loop's body"
    )


def test_the_place_is_the_launchers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    values = settings(tmp_path)._asdict()
    monkeypatch.setenv("DLPERF_MARK", json.dumps(values))
    marks = Marks.of_environment()
    assert marks is not None
    marks.close()
    [line] = (tmp_path / "rank00003.jsonl").read_text().splitlines()
    assert json.loads(line)["world_size"] == 4


LOOP = "for _ in range(20):\n    with step(): pass\n"


def test_a_second_process_of_a_rank_leaves_the_first_ones_records_alone(tmp_path: Path):
    program(tmp_path, LOOP)
    before = records(tmp_path)
    program(tmp_path, LOOP + "print(os.getpid())")
    assert records(tmp_path) == before
    [[other]] = read_conflicts(tmp_path).values()
    assert other.startswith("pid ")
    assert other.split()[1] != str(before["start"][0]["pid"])


@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_forked_child_that_marks_is_a_process_of_its_own(tmp_path: Path, rank: str):
    program(
        tmp_path,
        f"""
        with step() as held: pass
        if os.fork() == 0:
            os.environ["RANK"] = "{rank}"
            held.loss(1.0)
            held.__exit__(ValueError, ValueError("the child's"), None)
            for _ in range(12):
                with step(): pass
            os._exit(0)
        os.wait()
        for _ in range(19):
            with step() as held: held.loss(2.0)
        """,
        RANK="0",
    )
    found = records(tmp_path)
    assert len(found["span"]) == 12
    assert found["loss"][0]["values"] == [2.0] * 11
    assert "failure" not in found
    if rank == "0":
        assert list(read_conflicts(tmp_path)) == [0]
    else:
        assert read_conflicts(tmp_path) == {}
        assert (tmp_path / "rank00001.jsonl").exists()


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **values: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(values)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("framework", ["torch", "paddle", "tensorflow"])
def test_the_cases_own_framework_comes_before_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str
):
    no_gpu = SimpleNamespace(is_available=lambda: False)
    fake(monkeypatch, "torch", __version__="9.1", cuda=no_gpu)
    fake(
        monkeypatch,
        "paddle",
        __version__="9.2",
        device=SimpleNamespace(get_device=lambda: "cpu"),
    )
    config = SimpleNamespace(list_logical_devices=lambda kind: [])
    fake(monkeypatch, "tensorflow", __version__="9.3", config=config)
    marks = Marks(settings(tmp_path)._replace(framework=framework))
    for _ in range(12):
        with marks.step(None):
            pass
    assert records(tmp_path)["framework"][0]["framework"] == framework
    assert set(records(tmp_path)["libraries"][0]["imported"]) >= {"torch", "paddle"}


def test_tensorflows_gpus_are_waited_for_and_report_their_memory(monkeypatch: pytest.MonkeyPatch):
    calls: list[str] = []
    peaks = {"/device:GPU:0": 10, "/device:GPU:1": 30}
    experimental = SimpleNamespace(
        reset_memory_stats=lambda name: calls.append(f"reset {name}"),
        get_memory_info=lambda name: {"current": 1, "peak": peaks[name]},
    )
    gpus = [SimpleNamespace(name=name) for name in peaks]
    fake(
        monkeypatch,
        "tensorflow",
        config=SimpleNamespace(list_logical_devices=lambda kind: gpus, experimental=experimental),
        test=SimpleNamespace(
            experimental=SimpleNamespace(sync_devices=lambda: calls.append("sync"))
        ),
    )
    device = device_of("tensorflow")
    device.synchronise()
    device.reset_peak_memory()
    assert calls == ["sync", "reset /device:GPU:0", "reset /device:GPU:1"]
    assert device.peak_memory() == {"bytes": 30, "kind": "gpu-allocated"}


def test_tensorflow_in_a_program_of_another_framework_is_not_woken_up(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setitem(sys.modules, "torch", None)
    fake(monkeypatch, "tensorflow")  # no attribute: a question would raise
    assert device_of("torch").peak_memory()["kind"] == "resident-set"
