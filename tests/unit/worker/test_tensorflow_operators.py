"""Operators of TensorFlow's graphs, in what was recorded of a training under Horovod.

Recorded by TensorFlow 2.15 in one of two ranks on CPUs, two steps, and made small: events and
facts that are not used are left out.
"""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path

import pytest

from pytest_dlperf.worker.step_parts import (
    COMMUNICATION,
    COMPILATION,
    COMPUTE,
    DATA,
    TraceEvent,
    launches_of,
    operators_of,
    part_of,
    windows_of,
)
from pytest_dlperf.worker.tensorflow_operators import path_of, tensorflow_events
from pytest_dlperf.worker.xplane import XEvent, XLine, XSpace

FILE = Path(__file__).parent / "recorded" / "tensorflow_horovod.xplane.pb.gz"
SPACE = XSpace(gzip.decompress(FILE.read_bytes()))


def steps() -> list[tuple[tuple[float, float], int]]:
    events = (event for line in SPACE.lines() for event in line.events)
    return [((e.begin_us, e.end_us), 1) for e in events if e.name == "dlperf.step"]


def test_operators_have_the_layers_of_the_model():
    operators = operators_of(tensorflow_events(SPACE), steps())
    calls = {(one["path"], one["name"]): one["calls"] for one in operators}
    assert calls["sequential.dense", "_FusedMatMul"] == 1
    assert calls["sequential.dense (backward)", "ReluGrad"] == 1
    assert calls["sequential.dense (backward)", "MatMul"] == 1
    assert calls["sequential.dense_1 (backward)", "MatMul"] == 2
    assert calls["data", "DataLoader"] == 1
    assert calls["", "HorovodAllreduce"] == 4
    parts = {one["name"]: one["part"] for one in operators}
    assert (parts["HorovodAllreduce"], parts["DataLoader"]) == (COMMUNICATION, DATA)
    assert parts["MatMul"] == COMPUTE


def test_parts_add_up_and_averages_that_overlap_count_once():
    events = tensorflow_events(SPACE)
    windows = windows_of(events, steps())
    assert len(windows) == 2
    for window in windows:
        assert window["seconds"] == sum(window["parts"].values())
        assert {DATA, COMPUTE, COMMUNICATION, "Python and launches"} == set(window["parts"])
    averages = [event for event in events if part_of(event) == COMMUNICATION]
    assert len(averages) == 8
    for before, after in itertools.pairwise(averages):
        assert before.end_us <= after.begin_us <= after.end_us


class Made:
    """A recording that was made up."""

    def __init__(self, *lines: XLine) -> None:
        self.lines = lambda: iter(lines)


def events_of(line: str, *events: XEvent, plane: str = "/host:CPU") -> list[TraceEvent]:
    return tensorflow_events(Made(XLine(plane, line, 1, list(events))))  # type: ignore[arg-type]


def test_a_collective_of_tensorflow_is_one_operator():
    """It has events where it begins, on the thread that does it, and where it is done."""
    facts = {"name": "CollectiveReduceV2", "kernel_type": "CollectiveReduceV2"}
    [event] = events_of(
        "collective_ops",
        XEvent("ExecutorState::ProcessAsync::Start", 0, 1, {**facts, "_p": 5}),
        XEvent("CollectiveReduceV2:CollectiveReduceV2", 2, 8, {}),
        XEvent("ExecutorState::ProcessAsync::Done", 9, 10, {**facts, "_c": 5}),
    )
    assert (event.begin_us, event.end_us, event.part) == (0, 9, COMMUNICATION)


def test_what_makes_batches_ahead_is_no_part_of_the_step():
    assert events_of("tf_data_private_threadpool", XEvent("mul:Mul", 0, 1, {})) == []
    [event] = events_of("tf_Compute", XEvent("mul:Mul", 0, 1, {}))
    assert (event.name, event.part) == ("Mul", COMPUTE)


def test_a_call_that_traces_its_function_is_compilation():
    facts = {"tf_function_call": "traced-nonXla"}
    [event] = events_of("python", XEvent("train", 0, 9, facts))
    assert event.part == COMPILATION


def test_what_calls_other_operators_is_no_operator_itself():
    [event] = events_of("tf_Compute", XEvent("cond:StatelessIf", 0, 9, {}))
    assert part_of(event) == ""


def test_kernels_on_a_gpu_belong_to_the_operators_that_start_them():
    """The events are made up as TensorFlow names them: nothing was recorded there."""
    facts = {"tf_op": "net/dense/MatMul:MatMul"}
    events = events_of(
        "Stream #20(Compute)",
        XEvent("sgemm", 5, 9, facts),
        XEvent("MemcpyD2H", 9, 10, {}),
        plane="/device:GPU:0",
    )
    window = [((0.0, 20.0), 1)]
    [operator] = operators_of(events, window)
    assert (operator["path"], operator["name"]) == ("net.dense", "MatMul")
    assert (operator["seconds"], operator["kernels"]) == (pytest.approx(4e-6), ["sgemm"])
    assert launches_of(events, window) == 2


@pytest.mark.parametrize(
    ("name", "kind", "path"),
    [
        ("net/dense/MatMul", "MatMul", "net.dense"),
        ("net/dense/MatMul/ReadVariableOp", "ReadVariableOp", "net.dense"),
        ("gradient_tape/net/dense/MatMul/MatMul_1", "MatMul", "net.dense (backward)"),
        ("gradient_tape/net/dense/ReluGrad", "ReluGrad", "net.dense (backward)"),
        ("gradient_tape/mul", "Mul", "(backward)"),
        ("SGD/mul_2", "Mul", "SGD"),
        ("a/cond_1/then/_8/a/cond_1/net/Mul", "Mul", "a.cond_1.net"),
        ("Mean", "Mean", ""),
    ],
)
def test_the_path_of_an_operator(name: str, kind: str, path: str):
    assert path_of(name, kind) == path
