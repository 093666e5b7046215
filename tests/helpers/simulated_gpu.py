"""A GPU that computes while the host goes on: a queue of kernels, events, run-ahead.

Time passes only where somebody says so, so that what the harness reads can be asserted exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.core.wire import PROGRESS
from pytest_dlperf.worker.feed import Feed
from pytest_dlperf.worker.frameworks import on_cpu
from pytest_dlperf.worker.frameworks.base import EventTimer, Timer
from pytest_dlperf.worker.records import MetricBook

#: A step of five kernels that the host launches in a twentieth of the device's time.
STEP_S = 0.010


class SimulatedGpu:
    """The host's clock, and when the device will have done all that was given to it."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.free_s = 1000.0
        #: Of every wait of the host.
        self.waits_s: list[float] = []
        #: Called whenever time passes on the host.
        self.on_pass: Callable[[], None] = lambda: None

    def host(self, seconds: float) -> None:
        """The host works for so long."""
        self.now_s += seconds
        self.on_pass()

    def kernel(self, seconds: float, *, launch_s: float = 1e-5) -> None:
        """The host launches a kernel that takes so long; the device does it after those before."""
        self.host(launch_s)
        self.free_s = max(self.free_s, self.now_s) + seconds

    def synchronize(self) -> None:
        self.wait_until(self.free_s)

    def wait_until(self, moment_s: float) -> None:
        self.waits_s.append(max(0.0, moment_s - self.now_s))
        self.now_s = max(self.now_s, moment_s)
        self.on_pass()

    def event(self) -> Event:
        return Event(self)

    def clock(self) -> SimpleNamespace:
        """Return what stands in for the module ``time``."""
        return SimpleNamespace(
            perf_counter=lambda: self.now_s, time=lambda: self.now_s, process_time=lambda: 0.0
        )

    def timed_by(self, monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
        """Let modules read this clock."""
        for module in modules:
            monkeypatch.setattr(module, "time", self.clock())


class Event:
    """As of ``torch.cuda`` and ``paddle.device``: reached when the work before it is done."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu

    def record(self) -> None:
        # The device takes half a microsecond for it
        self.gpu.free_s = max(self.gpu.free_s, self.gpu.now_s) + 5e-7
        self.at_s = self.gpu.free_s

    def query(self) -> bool:
        return self.at_s <= self.gpu.now_s

    def synchronize(self) -> None:
        self.gpu.wait_until(self.at_s)

    def elapsed_time(self, end: Event) -> float:
        return (end.at_s - self.at_s) * 1000


class SimulatedFramework:
    """One rank on a simulated GPU, as the loop sees it."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self.gpu = gpu
        self.job: Any = SimpleNamespace(
            world_size=1,
            iteration_work=4,
            feed=Feed(),
            book=MetricBook(),
        )

    def timer(self) -> Timer:
        return EventTimer(self._recorded, self.gpu.synchronize)

    def _recorded(self) -> Event:
        event = self.gpu.event()
        event.record()
        return event

    def synchronise(self) -> None:
        self.gpu.synchronize()

    def barrier(self) -> None: ...

    def keep_loss(self, loss: Any) -> Any:
        return loss

    def loss_value(self, kept: Any) -> float:
        return kept if isinstance(kept, float) else float(kept.value)

    def watch_shapes(self) -> Any:
        return nullcontext()

    watch_arithmetic = watch_shapes

    def canary(self) -> dict[str, float | None]:
        return {"matmul_gflop_per_s": 1.0, "copy_gb_per_s": 1.0, "all_reduce_gb_per_s": None}

    def release_memory(self) -> None: ...

    def reset_peak_memory(self) -> None: ...

    def mean_over_ranks(self, value: float) -> float:
        return value

    def waits_within(self, step: Callable[[], Any]) -> bool:
        waited = len(self.gpu.waits_s)
        step()
        return any(seconds > 0 for seconds in self.gpu.waits_s[waited:])

    def delay(self, share: float, typical_s: float) -> Callable[[float], None]:
        return lambda _step_s: self.gpu.kernel(share * typical_s)


class HostTimedFramework(SimulatedFramework):
    """Of a framework whose events measure no time: each lap is waited for."""

    def timer(self) -> Timer:
        return on_cpu.WaitingTimer(self.gpu.synchronize)


def cuda_of(gpu: SimulatedGpu) -> SimpleNamespace:
    """Return what stands in for ``torch.cuda``, for a program with marks."""
    return SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        synchronize=gpu.synchronize,
        Event=lambda enable_timing: gpu.event(),
        reset_peak_memory_stats=lambda: None,
        max_memory_allocated=lambda: 7,
        nccl=SimpleNamespace(version=lambda: (2, 21, 5)),
        get_device_properties=lambda device: SimpleNamespace(uuid="8932f937"),
        get_device_name=lambda device: "NVIDIA H100 80GB HBM3",
        current_device=lambda: 0,
    )


def step_of(gpu: SimulatedGpu, loss: Any = None) -> Any:
    def step() -> Any:
        for _ in range(5):
            gpu.kernel(STEP_S / 5, launch_s=1e-4)
        return SimpleNamespace(value=1.0) if loss is None else loss()

    return step


def records(folder: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (folder / "rank00000.jsonl").read_text().splitlines():
        values = json.loads(line)
        found.setdefault(values["record"], []).append(values)
    return found


def finished(folder: Path) -> int:
    return int(PROGRESS.unpack((folder / "rank00000.progress").read_bytes())[0])
