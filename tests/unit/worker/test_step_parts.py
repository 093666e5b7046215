"""The parts and operators of steps, from traces that are written by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.worker import step_parts
from pytest_dlperf.worker.step_parts import (
    MODULE,
    TraceEvent,
    length,
    operators_of,
    part_of,
    subtract,
    union,
    windows_of,
    without_extremes,
)

STEP = [((0.0, 1000.0), 1)]


def event(name: str, begin: float, end: float, **fields: object) -> TraceEvent:
    return TraceEvent(name=name, begin_us=begin, end_us=end, **fields)  # type: ignore[arg-type]


def parts_ms(*events: TraceEvent) -> dict[str, float]:
    (window,) = windows_of(events, STEP)
    assert window["seconds"] == sum(window["parts"].values())
    return {part: round(seconds * 1000, 6) for part, seconds in window["parts"].items()}


def test_the_parts_of_a_step_on_a_cpu_are_disjoint():
    found = parts_ms(
        event("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0, 200),
        event("aten::stack", 50, 150),  # makes the batch
        event("aten::mm", 300, 500),
        event("gloo:all_reduce", 400, 700, thread=2, is_async=True),
        event("aten::item", 800, 900),
        event("aten::_local_scalar_dense", 850, 890),
    )
    assert found == {
        "waiting for data": 0.2,
        "compute": 0.2,
        "exposed communication": 0.2,  # that which no operator covers
        "host waits": 0.1,
        "Python and launches": 0.3,
    }


def test_the_host_itself_takes_the_begin_of_each_break_of_the_backward():
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    whole = [((0.0, 10_000.0), 1)]
    events = [
        event(node, 0, 1000),
        event("aten::mm", 0, 900),
        event("c10d::allreduce_", 920, 950),
        event("gloo:all_reduce", 930, 9000, thread=2, is_async=True),
        event(node, 1050, 2500),
        event("aten::mm", 980, 1500),  # 80 us after the one before it
        event("aten::mm", 1900, 2500),  # a wait within a node
        event("Optimizer.step#SGD.step", 9000, 10_000),
    ]
    [window] = windows_of(events, whole)
    found = {part: round(seconds * 1e6) for part, seconds in window["parts"].items()}
    assert found == {
        "compute": 900 + 520 + 600,
        "exposed communication": 200 + 6500,
        "Python and launches": 80 + 200 + 1000,
    }


def test_a_wait_for_a_collective_within_an_operator_is_no_computation():
    found = parts_ms(
        event("aten::add", 100, 500),
        event("_c10d_functional::wait_tensor", 150, 400),
        event("gloo:all_reduce", 0, 400, thread=2, is_async=True),
        event("autograd::engine::evaluate_function: AddBackward0", 600, 900),
        event("_c10d_functional::wait_tensor", 650, 750),  # of the backward, and short
        event("gloo:all_reduce", 640, 750, thread=2, is_async=True),
    )
    assert found == {
        "compute": 0.15,
        "exposed communication": 0.45,
        "Python and launches": 0.4,
    }


def test_on_a_gpu_the_host_counts_only_while_the_device_is_idle():
    found = parts_ms(
        event("sm80_gemm", 100, 400, on_device=True),
        event("ncclDevKernel_AllReduce_Sum_f32", 300, 600, on_device=True),
        event("Memcpy HtoD (Pinned -> Device)", 550, 650, on_device=True),
        event("aten::mm", 0, 700),  # it launches the kernel
        event("cudaStreamSynchronize", 600, 800),
        event("cudaMalloc", 850, 900),
        event("enumerate(DataLoader)#x", 350, 380),
    )
    assert found == {
        "compute": 0.3,
        "exposed communication": 0.2,
        "exposed copies": 0.05,
        "host waits": 0.15,
        "allocator": 0.05,
        "Python and launches": 0.25,
    }


def test_idle_time_after_a_wait_lasts_until_work_is_queued_again():
    # As seen on an H100: the worker keeps the loss by a kernel right after `.item()`, and then the
    # program of the next step goes on without any work on the GPU
    found = parts_ms(
        event("sm90_gemm", 0, 100, on_device=True),
        event("sm90_gemm", 101, 200, on_device=True),
        event("cudaStreamSynchronize", 50, 210),
        event("vectorized_elementwise_kernel", 220, 222, on_device=True),  # of the loss
        event("vectorized_elementwise_kernel", 320, 322, on_device=True),
        event(
            "vectorized_elementwise_kernel", 323, 325, on_device=True
        ),  # two, but nothing queued
        event("sm90_gemm", 700, 780, on_device=True),
        event("sm90_gemm", 781, 900, on_device=True),
        event("sm90_gemm", 950, 1000, on_device=True),
    )
    assert found == {
        "compute": 0.454,
        "host waits": 0.011,  # 1 us of it between the first two kernels
        "after host waits": 0.484,
        "Python and launches": 0.051,
    }


def idle_us(*events: TraceEvent) -> float:
    return round(1000 * parts_ms(*events).get("after host waits", 0.0), 3)


def test_a_host_that_never_queues_anything_is_exposed_until_its_last_kernel():
    kernels = [event("tiny", at, at + 5, on_device=True) for at in range(100, 900, 10)]
    assert idle_us(event("cudaStreamSynchronize", 50, 100), *kernels) == 79 * 5


def test_what_the_worker_waits_for_before_the_window_opens_no_idle_time():
    kernels = [event("tiny", at, at + 5, on_device=True) for at in range(100, 900, 10)]
    assert idle_us(event("cudaDeviceSynchronize", -50, -1), *kernels) == 0


def test_kernels_of_two_streams_are_one_stretch_of_queued_work():
    wait = event("cudaStreamSynchronize", 50, 100)
    long, short = event("gemm", 200, 290, on_device=True), event("add", 210, 215, on_device=True)
    later = event("gemm", 291, 300, on_device=True)
    # The short one ends first; what is queued ends with the long one
    assert idle_us(wait, long, short, later, event("x", 400, 410, on_device=True)) == 100


def test_a_short_stretch_of_two_kernels_queues_nothing():
    wait = event("cudaStreamSynchronize", 0, 10)
    two = [event("gemm", at, at + 24, on_device=True) for at in (100, 125)]
    assert idle_us(wait, *two, event("x", 400, 410, on_device=True)) == 90 + 1 + 251
    longer = [event("gemm", at, at + 26, on_device=True) for at in (100, 127)]
    assert idle_us(wait, *longer, event("x", 400, 410, on_device=True)) == 90
    one = event("gemm", 100, 300, on_device=True)
    assert idle_us(wait, one, event("x", 400, 410, on_device=True)) == 90 + 100


def test_while_another_stream_works_a_wait_leaves_nothing_idle():
    found = parts_ms(
        event("sm90_gemm", 0, 500, on_device=True),
        event("sm90_gemm", 501, 900, on_device=True),
        event("cudaStreamSynchronize", 100, 400),
        event("sm90_gemm", 950, 1000, on_device=True),
    )
    assert found == {"compute": 0.949, "after host waits": 0.001, "Python and launches": 0.05}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("aten::mm", step_parts.COMPUTE),
        ("mylib::fused", step_parts.COMPUTE),
        ("Torch-Compiled Region: 0/0", step_parts.COMPUTE),
        ("c10d::allreduce_", step_parts.COMMUNICATION),
        ("_c10d_functional::wait_tensor", step_parts.COMMUNICATION),
        ("Optimizer.step#SGD.step", ""),
        ("autograd::engine::evaluate_function: MmBackward0", ""),
        ("a user's own words", ""),
        ("cudaLaunchKernel", ""),
    ],
)
def test_each_event_is_of_one_part(name: str, part: str):
    assert part_of(event(name, 0, 1)) == part


NAMES = ["aten::mm", "gloo:all_reduce", "enumerate(DataLoader)#x", "aten::item", "words"]
EVENTS = st.lists(
    st.builds(
        lambda name, begin, took, thread: event(name, begin, begin + took, thread=thread),
        st.sampled_from(NAMES),
        st.integers(-200, 1200),
        st.integers(0, 500),
        st.integers(1, 3),
    ),
    max_size=20,
)


@settings(deadline=None)
@given(EVENTS)
def test_parts_add_up_to_the_step_and_are_never_negative(events: list[TraceEvent]):
    (window,) = windows_of(events, STEP)
    assert window["seconds"] == pytest.approx(1000 / 1e6)
    assert sum(window["parts"].values()) == window["seconds"]
    assert all(seconds >= 0 for seconds in window["parts"].values())


INTERVALS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda p: (p[0], p[0] + p[1]))
)


@settings(deadline=None)
@given(INTERVALS, INTERVALS)
def test_intervals_cover_the_moments_that_sets_do(one: list, other: list):
    def moments(intervals: list) -> set[int]:
        return {at for begin, end in intervals for at in range(begin, end)}

    left, right = union(one), union(other)
    assert moments(left) == moments(one)
    assert length(left) == len(moments(one))
    assert moments(subtract(left, right)) == moments(one) - moments(other)


def test_an_operator_has_its_own_time_at_its_module_and_its_backward_too():
    rows = operators_of(
        [
            event(f"{MODULE}layer.conv", 0, 300, thread=1),
            event("aten::linear", 10, 210, thread=1, sequence=-1),
            event("aten::addmm", 20, 120, thread=1, sequence=7),
            event("aten::relu", 400, 450, thread=1, sequence=8),
            event("autograd::engine::evaluate_function: AddmmBackward0", 500, 700,
                  thread=1, sequence=7),
            event("AddmmBackward0", 510, 690, thread=1, sequence=7),
            event("aten::mm", 520, 600, thread=1),
            event("gloo:all_reduce", 500, 900, thread=2, is_async=True),
            event("Optimizer.step#SGD.step", 700, 800, thread=1),
            event("aten::add_", 710, 750, thread=1),
            event("aten::mm", 2000, 2100, thread=1),  # after the steps
        ],
        STEP,
    )  # fmt: skip
    found = {(r["path"], r["name"]): (r["calls"], round(r["seconds"] * 1e6, 3)) for r in rows}
    assert found == {
        ("layer.conv", "aten::linear"): (1, 100),
        ("layer.conv", "aten::addmm"): (1, 100),
        ("", "aten::relu"): (1, 50),
        ("layer.conv (backward)", "aten::mm"): (1, 80),
        ("", "gloo:all_reduce"): (1, 400),
        ("optimizer", "aten::add_"): (1, 40),
    }
    assert rows[0]["name"] == "gloo:all_reduce"


def test_calls_and_time_are_those_of_one_step():
    windows = [((0.0, 100.0), 1), ((100.0, 200.0), 1)]
    events = [event("aten::mm", 10, 30), event("aten::mm", 110, 150)]
    (row,) = operators_of(events, windows)
    assert (row["calls"], row["seconds"]) == (1, pytest.approx(30e-6))


def test_the_shortest_and_the_longest_quarter_of_the_steps_are_left_out():
    windows = [((0.0, length_us), 1) for length_us in (9.0, 2.0, 1.0, 3.0, 4.0)]
    assert [end for (_, end), _ in without_extremes(windows)] == [2, 3, 4]
    assert len(without_extremes(windows[:4])) == 4
    many = [((0.0, float(length_us)), 1) for length_us in (*range(20, 0, -2), *range(1, 20, 2))]
    kept = [end for (_, end), _ in without_extremes(many)]
    assert sorted(kept) == list(range(6, 16))
    assert kept == [14, 12, 10, 8, 6, 7, 9, 11, 13, 15]


def test_a_step_that_is_left_out_is_in_no_operator():
    """A hiccup of the machine in one step is in neither the parts nor the operators."""
    lengths_us = (10.0, 10.0, 200.0, 10.0, 10.0)
    events, windows, at_us = [], [], 0.0
    for length_us in lengths_us:
        windows.append(((at_us, at_us + 300), 1))
        events.append(TraceEvent("aten::mm", at_us + 1, at_us + 1 + length_us))
        at_us += 300
    # Windows of the host's clock are as long as their step
    windows = [
        ((b, b + length + 2), 1) for ((b, _), _), length in zip(windows, lengths_us, strict=True)
    ]
    kept = without_extremes(windows)
    (row,) = operators_of(events, kept)
    assert row["seconds"] == pytest.approx(10e-6)
