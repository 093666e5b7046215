"""A wait of the host in each step, on a GPU whose time is simulated, is named with its time."""

from __future__ import annotations

import random

import pytest

from pytest_dlperf.core.outcome import Explanation
from pytest_dlperf.core.verdict import Comparison
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.judge.explain.attribution import attribute
from pytest_dlperf.worker.step_parts import TraceEvent, launches_of, operators_of, windows_of
from tests.helpers.simulated_gpu import SimulatedGpu

STEPS = 5
KERNELS = 20


class Training:
    """Steps of kernels that the host launches ahead of the GPU, with what each of them takes."""

    def __init__(self, noise: random.Random, *, waits: int, python_s: float = 0.004) -> None:
        self.gpu = SimulatedGpu()
        self.noise = noise
        self.waits = waits
        self.python_s = python_s
        self.events: list[TraceEvent] = []

    def varied(self, seconds: float) -> float:
        return seconds * self.noise.uniform(0.98, 1.02)

    def kernel(self, seconds: float) -> None:
        gpu, begin_s = self.gpu, self.gpu.now_s
        free_s = gpu.free_s
        gpu.kernel(self.varied(seconds), launch_s=2e-5)
        starts_s = max(free_s, gpu.now_s)
        kernel_us = (gpu.free_s - starts_s) * 1e6
        self.record("aten::mm", begin_s, gpu.now_s, device_us=kernel_us, kernels=("gemm",))
        self.record("gemm", starts_s, gpu.free_s, on_device=True)

    def record(self, name: str, begin_s: float, end_s: float, **more: object) -> None:
        self.events.append(
            TraceEvent(name=name, begin_us=begin_s * 1e6, end_us=end_s * 1e6, **more)  # type: ignore[arg-type]
        )

    def step(self) -> None:
        gpu = self.gpu
        gpu.host(self.varied(self.python_s))
        for _ in range(KERNELS):
            self.kernel(0.001)
        for _ in range(self.waits):
            begin_s = gpu.now_s
            gpu.synchronize()
            self.record("aten::item", begin_s, gpu.now_s)
            self.record("cudaStreamSynchronize", begin_s, gpu.now_s)

    def profile(self) -> tuple[ProfileRecord, float]:
        """Return the record of five steps, and the seconds of one."""
        self.step()
        self.gpu.synchronize()
        self.events.clear()
        begin_s = self.gpu.now_s
        for _ in range(STEPS):
            self.step()
        self.gpu.synchronize()
        windows = [((begin_s * 1e6, self.gpu.now_s * 1e6), STEPS)]
        record = ProfileRecord(
            windows=windows_of(self.events, windows),
            operators=operators_of(self.events, windows),
            launches=launches_of(self.events, windows),
        )
        return record, (self.gpu.now_s - begin_s) / STEPS


def explained(noise: random.Random, *, before: dict, now: dict) -> tuple[Explanation, float]:
    """Return what is said of two launches each, and by how many milliseconds a step is longer."""
    olds = [Training(noise, **before).profile() for _ in range(2)]
    news = [Training(noise, **now).profile() for _ in range(2)]
    seconds = [sum(step_s for _, step_s in side) / 2 for side in (olds, news)]
    found = attribute(
        [{0: record} for record, _ in olds],
        [{0: record} for record, _ in news],
        Comparison(change=seconds[0] / seconds[1] - 1),
    )
    return found, (seconds[1] - seconds[0]) * 1000


@pytest.mark.parametrize("seed", range(10))
def test_a_wait_in_each_step_is_named_with_its_time(seed: int):
    found, longer_ms = explained(random.Random(seed), before={"waits": 0}, now={"waits": 1})
    part = next(one for one in found.parts if one.part == "host waits")
    assert longer_ms > 3, "the host's program is no longer hidden by the GPU's work"
    assert part.named
    assert part.difference_ms == pytest.approx(longer_ms, rel=0.2)
    assert "host waits +" in found.sentence
    assert "aten::item" in {one.operator for one in found.operators}


def test_with_as_many_waits_as_before_a_longer_program_is_the_cause():
    found, longer_ms = explained(
        random.Random(1),
        before={"waits": 1, "python_s": 0.002},
        now={"waits": 1, "python_s": 0.009},
    )
    named = {one.part: one.difference_ms for one in found.parts if one.named}
    assert named == {"Python and launches": pytest.approx(longer_ms, rel=0.1)}


@pytest.mark.parametrize("seed", range(20))
def test_equal_trainings_name_nothing(seed: int):
    found, _ = explained(random.Random(100 + seed), before={"waits": 1}, now={"waits": 1})
    assert not any(one.named for one in (*found.parts, *found.operators))


def test_launches_and_kernels_are_counted():
    record, _ = Training(random.Random(1), waits=0).profile()
    assert record["launches"] == KERNELS
    assert record["operators"][0].get("kernels") == ["gemm"]
