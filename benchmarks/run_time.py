"""What a run takes beside its iterations: launch to end, less the iterations.

A small training with one rank and with two, launched as the plugin does it, and in turn bare
torchrun of a program that imports torch, makes the process group and ends: that part is not ours.
A first run of a case samples facts about scaling, later ones do not.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.plan import make_plan
from pytest_dlperf.launch.process.execute import execute

if TYPE_CHECKING:
    from pytest_dlperf.core.case import Case

_ROUNDS = 5
_ROOT = Path(__file__).resolve().parents[1]
_TRAINING = """
import torch

def build(job):
    net = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    model = job.data_parallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.randn(job.batch_size_per_device, 256)
    target = torch.arange(job.batch_size_per_device) % 10

    def step():
        loss = torch.nn.functional.cross_entropy(model(batch), target)
        job.backward(loss, optimizer)
        return loss

    return step
"""
_BARE = """
import os
import torch
import torch.distributed as dist

if os.environ["WORLD_SIZE"] != "1":
    dist.init_process_group("gloo")
    dist.all_reduce(torch.zeros(1))
    dist.destroy_process_group()
"""
#: What a rank does at the moments that its records tell; ``ranks end`` is the launcher's.
_PARTS = (
    "to the rank's start",
    "to the first step",
    "canary",
    "iterations",
    "facts about scaling",
    "canary again, to the rank's end",
    "to the end of the run",
)


class Taken(NamedTuple):
    """Wall and CPU seconds of all its processes."""

    wall_s: float
    cpu_s: float


def beside_iterations(case: Case, target: Target, folder: Path) -> tuple[Taken, list[float]]:
    """Launch ``case``; return what it takes less its iterations, and the seconds of the parts."""
    plan = make_plan(case, target, folder)
    cpu_s = _children_cpu_s()
    run = execute(plan)
    cpu_s = _children_cpu_s() - cpu_s
    ranks = [_records(path) for path in sorted(folder.glob("rank*.jsonl"))]
    if run.exit_code != 0 or len(ranks) != case.world_size:
        raise RuntimeError(Path(run.log).read_text(encoding="utf-8"))
    spans = [[record for record in rank if record["record"] == "span"] for rank in ranks]
    iterations_s = max(sum(span["seconds"] for span in spans_of_rank) for spans_of_rank in spans)
    cpu_s -= sum(span["cpu_seconds"] for spans_of_rank in spans for span in spans_of_rank)
    times = [run.started_at_s, *_moments(ranks[0]), run.started_at_s + run.elapsed_s]
    parts = [end - begin for begin, end in itertools.pairwise(times)]
    return Taken(run.elapsed_s - iterations_s, cpu_s), parts


def bare(command: tuple[str, ...], world_size: int, folder: Path) -> Taken:
    """Run torchrun as in ``command``, of a program that only joins; return what it takes."""
    program = command.index("--no-python")
    folder.mkdir()
    cpu_s, begin_s = _children_cpu_s(), time.monotonic()
    subprocess.run(
        [*command[:program], str(folder.parent / "bare.py")],
        cwd=folder, check=True, capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(world_size)},
    )  # fmt: skip
    return Taken(time.monotonic() - begin_s, _children_cpu_s() - cpu_s)


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _moments(rank: list[dict[str, Any]]) -> list[float]:
    """Return when the parts of a rank ended."""
    times = {record["record"]: float(record["time"]) for record in rank if "time" in record}
    canary = next(float(record["time"]) for record in rank if record["record"] == "canary")
    after = times.get("all_reduce", times["window"])
    return [times["start"], times["first_step"], canary, times["window"], after, times["end"]]


def main() -> None:
    """Print what runs take beside their iterations, and beside bare torchrun."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small_train.py").write_text(_TRAINING, encoding="utf-8")
        (folder / "bare.py").write_text(_BARE, encoding="utf-8")
        target = Target(
            python=sys.executable, python_path=(str(_ROOT), str(folder)), threads_per_rank=1
        )
        for layout in ("1n1c", "1n2c"):
            [case] = expand(
                suite="small", workload="small_train:build", layout=layout,
                launcher="torchrun", batch_size_per_device=64,
            )  # fmt: skip
            several = case.world_size > 1
            kinds = {"first run": target, "later run": replace(target, scaling=False)}
            print_case(case, kinds if several else {"run": target}, folder)


def print_case(case: Case, kinds: dict[str, Target], folder: Path) -> None:
    """Print the ratios of rounds, in each of which every kind of run and the bare one is done."""
    bares: list[Taken] = []
    by_kind: dict[str, list[tuple[Taken, list[float]]]] = {kind: [] for kind in kinds}
    for number in range(_ROUNDS):
        for kind, target in kinds.items():
            run = folder / f"{case.layout}-{kind.replace(' ', '-')}-{number}"
            by_kind[kind].append(beside_iterations(case, target, run))
        command = make_plan(case, target, folder / "run").argv
        bares.append(bare(command, case.world_size, folder / f"{case.layout}-bare-{number}"))
    print(
        f"launch to end, less the iterations, {case.layout}: bare torchrun {_median_text(bares)}; "
        f"{_ROUNDS} rounds"
    )
    for kind, runs in by_kind.items():
        taken = [launch for launch, _ in runs]
        ratios = [a.wall_s / b.wall_s for a, b in zip(taken, bares, strict=True)]
        print(
            f"  {kind}: {_median_text(taken)}; / bare torchrun: median "
            f"{statistics.median(ratios):.3f} (min {min(ratios):.3f}, max {max(ratios):.3f})"
        )
        for part, seconds in zip(_PARTS, zip(*(p for _, p in runs), strict=True), strict=True):
            print(f"    {part:32} {statistics.median(seconds):6.2f} s")


def _median_text(taken: list[Taken]) -> str:
    wall_s = statistics.median(launch.wall_s for launch in taken)
    return f"{wall_s:.2f} s, {statistics.median(launch.cpu_s for launch in taken):.2f} s of CPU"


if __name__ == "__main__":
    main()
