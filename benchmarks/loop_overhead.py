"""What the worker's measured loop adds to a step, against the same bare loop.

On the CPU two figures: the ratio of whole loops, run in turn (noisy: it has the noise of the
steps), and what a lap itself costs, from a step that does nothing. On a simulated GPU, whose
queue of kernels takes real time while the host goes on, the ratio of whole loops.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from pytest_dlperf.worker.arguments import Arguments
from pytest_dlperf.worker.frameworks.base import EventTimer
from pytest_dlperf.worker.frameworks.torch.framework import Torch
from pytest_dlperf.worker.loop import RunProtocol, run_loop
from pytest_dlperf.worker.records import ProgressCounter, RecordWriter
from pytest_dlperf.worker.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP_S = 0.005
_ITERATIONS = 200
_ROUNDS = 20
_EMPTY_ITERATIONS = 20_000


class SimulatedGpu:
    """A GPU by the host's clock: kernels queue and take their time, the host waits if asked."""

    def __init__(self) -> None:
        self.free_s = 0.0

    def kernel(self, seconds: float) -> None:
        """Put a kernel of so many seconds into the queue."""
        self.free_s = max(self.free_s, time.perf_counter()) + seconds

    def synchronize(self) -> None:
        """Wait until the queue is empty."""
        self.wait_until(self.free_s)

    @staticmethod
    def wait_until(moment_s: float) -> None:
        """Wait, and take the processor as a framework does that polls its GPU."""
        while time.perf_counter() < moment_s:
            pass


class SimulatedEvent:
    """An event of ``gpu``: reached when the work before it is done."""

    def __init__(self, gpu: SimulatedGpu) -> None:
        self._gpu, self._at_s = gpu, max(gpu.free_s, time.perf_counter())

    def query(self) -> bool:
        """Return whether it is reached."""
        return time.perf_counter() >= self._at_s

    def synchronize(self) -> None:
        """Wait until it is reached."""
        self._gpu.wait_until(self._at_s)

    def elapsed_time(self, end: SimulatedEvent) -> float:
        """Return milliseconds from this to ``end``."""
        return (end._at_s - self._at_s) * 1000


class OnSimulatedGpu(Torch):
    """PyTorch's loop, timed by the events of a simulated GPU."""

    def __init__(self, arguments: Arguments, gpu: SimulatedGpu) -> None:
        super().__init__(arguments)
        self.gpu = gpu

    def timer(self) -> EventTimer:
        """Return the timer of a GPU."""
        return EventTimer(lambda: SimulatedEvent(self.gpu), self.gpu.synchronize)

    def synchronise(self) -> None:
        """Wait for the simulated GPU."""
        self.gpu.synchronize()


def worker_loop_s(framework: Torch, step: Callable[[], Any], iterations: int) -> float:
    """Return seconds of the measured window of the worker's loop."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        records, progress = RecordWriter(folder, 0), ProgressCounter(folder, 0)
        framework.job.work(1)
        window = RunProtocol(
            iterations=iterations + 2,
            warmup=2,
            warmup_s=0.0,
            batch_size_per_device=1,
            uncounted_unit="",
            inject=0,
        )
        run_loop(framework, step, window, records, progress, Turns())
        lines = (folder / "rank00000.jsonl").read_text(encoding="utf-8").splitlines()
    spans = [r for r in map(json.loads, lines) if r["record"] == "span" and r["first_step"] >= 2]
    return float(sum(span["seconds"] for span in spans))


def bare_loop_s(
    step: Callable[[], Any], iterations: int, wait: Callable[[], None] = lambda: None
) -> float:
    """Return seconds of a bare loop of the same steps, and of ``wait`` at its end."""
    begin_s = time.perf_counter()
    for _ in range(iterations):
        step()
    wait()
    return time.perf_counter() - begin_s


def pairs(
    worker: Callable[[], float], bare: Callable[[], float], rounds: int
) -> list[tuple[float, float]]:
    """Return seconds of both loops of each round; they take turns in going first."""
    seconds = []
    for round_number in range(rounds):
        if round_number % 2:
            worker_s, bare_s = worker(), bare()
        else:
            bare_s, worker_s = bare(), worker()
        seconds.append((worker_s, bare_s))
    return seconds


def ratio_line(times_s: list[tuple[float, float]]) -> str:
    """Return the line of the ratios of whole loops."""
    ratios = [worker_s / bare_s for worker_s, bare_s in times_s]
    step_s = statistics.median(bare_s for _, bare_s in times_s) / _ITERATIONS
    return (
        f"step {step_s * 1e3:.2f} ms; worker's loop / bare loop over {len(ratios)} pairs: median "
        f"{statistics.median(ratios):.5f} (min {min(ratios):.5f}, max {max(ratios):.5f})"
    )


def main() -> None:
    """Print the three figures."""
    arguments = Arguments(
        framework="torch",
        workload="none:none",
        precision="fp32",
        device="cpu",
        size="full",
        batch_size_per_device=1,
        world_size=1,
        iterations=_ITERATIONS,
        warmup=2,
        threads_per_rank=1,
        collective_timeout_s=60,
        seed=1,
        loss="finite",
        options={},
        inject=0.0,
        scaling=False,
        data=None,
        records="",
        place_from=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
        rank=0,
        local_rank=0,
        launched_world_size=1,
    )
    gpu = SimulatedGpu()
    framework = OnSimulatedGpu(arguments, gpu)
    loss = torch.zeros(())

    def on_gpu() -> torch.Tensor:
        gpu.kernel(_STEP_S)
        return loss

    times_s = pairs(
        lambda: worker_loop_s(framework, on_gpu, _ITERATIONS),
        lambda: bare_loop_s(on_gpu, _ITERATIONS, gpu.synchronize),
        _ROUNDS,
    )
    print(f"simulated GPU: {ratio_line(times_s)} (goal: below 1.001)")

    on_cpu = Torch(arguments)
    matrix = torch.rand(256, 256)
    once_s = bare_loop_s(lambda: matrix @ matrix, 200) / 200
    products = max(1, round(_STEP_S / once_s))

    def step() -> torch.Tensor:
        for _ in range(products):
            torch.mm(matrix, matrix)
        return loss

    times_s = pairs(
        lambda: worker_loop_s(on_cpu, step, _ITERATIONS),
        lambda: bare_loop_s(step, _ITERATIONS),
        _ROUNDS,
    )
    print(f"CPU: {ratio_line(times_s)}")
    laps_us = [
        (worker_s - bare_s) / _EMPTY_ITERATIONS * 1e6
        for worker_s, bare_s in pairs(
            lambda: worker_loop_s(on_cpu, lambda: loss, _EMPTY_ITERATIONS),
            lambda: bare_loop_s(lambda: loss, _EMPTY_ITERATIONS),
            10,
        )
    ]
    print(
        f"CPU: a lap costs {statistics.median(laps_us):.2f} us (min {min(laps_us):.2f}, max "
        f"{max(laps_us):.2f}; goal: below 20 us)"
    )


if __name__ == "__main__":
    main()
