"""What the worker's measured loop adds to a step, against the same bare loop.

Two figures: the ratio of whole loops, run in turn (noisy: it has the noise of the steps), and
what a lap itself costs, from a step that does nothing, as a share of the 5 ms.
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
from pytest_dlperf.worker.frameworks.torch.framework import Torch
from pytest_dlperf.worker.loop import Window, run_loop
from pytest_dlperf.worker.records import ProgressCounter, RecordWriter
from pytest_dlperf.worker.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Callable

_STEP_S = 0.005
_ITERATIONS = 200
_ROUNDS = 20


def worker_loop_s(framework: Torch, step: Callable[[], Any], iterations: int) -> float:
    """Return seconds of the measured window of the worker's loop."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        records, progress = RecordWriter(folder, 0), ProgressCounter(folder, 0)
        framework.job.work(1)
        window = Window(
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


def bare_loop_s(step: Callable[[], Any], iterations: int) -> float:
    """Return seconds of a bare loop of the same steps."""
    begin_s = time.perf_counter()
    for _ in range(iterations):
        step()
    return time.perf_counter() - begin_s


def main() -> None:
    """Print the two figures."""
    framework = Torch(
        Arguments(
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
    )
    matrix = torch.rand(256, 256)
    loss = torch.zeros(())
    once_s = bare_loop_s(lambda: matrix @ matrix, 200) / 200
    products = max(1, round(_STEP_S / once_s))

    def step() -> torch.Tensor:
        for _ in range(products):
            torch.mm(matrix, matrix)
        return loss

    ratios, steps_s = [], []
    for round_number in range(_ROUNDS):
        pair: list[tuple[str, Callable[[], float]]] = [
            ("worker", lambda: worker_loop_s(framework, step, _ITERATIONS)),
            ("bare", lambda: bare_loop_s(step, _ITERATIONS)),
        ]
        order = pair if round_number % 2 else pair[::-1]
        times_s = {name: measure() for name, measure in order}
        ratios.append(times_s["worker"] / times_s["bare"])
        steps_s.append(times_s["bare"] / _ITERATIONS)
    low, middle, high = min(ratios), statistics.median(ratios), max(ratios)
    print(
        f"step {statistics.median(steps_s) * 1e3:.2f} ms; worker's loop / bare loop over {_ROUNDS}"
        f" pairs: median {middle:.4f} (min {low:.4f}, max {high:.4f})"
    )
    empty = [
        worker_loop_s(framework, lambda: loss, 20000) - bare_loop_s(lambda: loss, 20000)
        for _ in range(5)
    ]
    lap_s = statistics.median(empty) / 20000
    print(
        f"a lap costs {lap_s * 1e6:.2f} us: {lap_s / _STEP_S:.3%} of a 5 ms step "
        "(goal: under 0.5 %)"
    )


if __name__ == "__main__":
    main()
