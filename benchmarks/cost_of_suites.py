"""Trace one step of each PyTorch suite at its full size, and print what it asks for.

    python benchmarks/cost_of_suites.py [WORD ...]

Words choose suites; without one, all of them. Each trace is a process of its own, without a GPU.
Seconds are those of the processor, of a trace and of PyTorch's import together.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from pytest_dlperf.core.wire import RankArguments
from pytest_dlperf.core.wire_cost import COST_RECORD, CostRecord

WORLD_SIZES: Final = (1, 8, 64)
#: Devices of a node.
_NODE: Final = 8


class Traced(NamedTuple):
    """A workload of a suite, and how it is trained."""

    suite: str
    precision: str
    batch_size_per_device: int
    options: Mapping[str, Any] = MappingProxyType({})
    parallel: str = ""
    world_sizes: tuple[int, ...] = WORLD_SIZES


TRACED: Final = (
    Traced("arcface", "fp32", 128),
    Traced("arcface", "bf16", 128, {"tuned": True}),
    Traced("bert", "amp", 96),
    Traced("deeplabv3p", "pure_fp16", 4),
    Traced("dlrm", "bf16", 8192, {"model": "dcnv2"}),
    Traced("hrnet", "amp", 8),
    Traced("llama", "bf16", 8, {"model": "350m"}, "ddp"),
    Traced("llama", "bf16", 1, {"model": "8b"}, "fsdp2", (8, 64, 512)),
    Traced("llama", "bf16", 1, {"model": "8b", "recompute": True}, "fsdp2-tp2", (8, 64, 512)),
    Traced("resnet50", "amp", 256),
    Traced("transformer", "amp", 5120),
    Traced("tsm", "amp", 16),
)


def trace(traced: Traced, world_size: int) -> tuple[CostRecord, float]:
    """Return the record of a trace, and the seconds of the processor that it took."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = RankArguments(
            framework="torch", workload=f"perf_tests.{traced.suite}.torch_train:build",
            precision=traced.precision, device="gpu", size="full", loss="finite",
            batch_size_per_device=traced.batch_size_per_device, world_size=world_size,
            iterations=2, warmup=1, threads_per_rank=1, collective_timeout_s=60.0, seed=1,
            records=folder, place_from=("RANK", "LOCAL_RANK", "WORLD_SIZE"),
            parallel=traced.parallel, options=dict(traced.options),
        )  # fmt: skip
        root = str(Path(__file__).parents[1])
        environment = {
            **os.environ, "LOCAL_WORLD_SIZE": str(min(world_size, _NODE)),
            "OMP_NUM_THREADS": "1", "PYTHONPATH": root,
        }  # fmt: skip
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "pytest_dlperf.worker.cost", *arguments.flags()],
            check=True, cwd=folder, env=environment, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        record: CostRecord = json.loads((Path(folder) / COST_RECORD).read_text(encoding="utf-8"))
    return record, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(traced: Traced, world_size: int, record: CostRecord, cpu_s: float) -> str:
    """Return a line of the table."""
    words = [traced.precision, traced.parallel, *map(str, traced.options.values())]
    name = f"{traced.suite} {'-'.join(filter(None, words))}"
    if "problem" in record:
        return f"| {name} | {world_size} | {cpu_s:.0f} | {record['problem']} |"
    [stage] = record["stages"]
    flops = ", ".join(f"{count / 1e12:.3f} {dtype}" for dtype, count in stage["flops"].items())
    collectives = sum(collective["calls"] for collective in stage["collectives"])
    cells = (
        name, world_size, f"{cpu_s:.0f}", f"{record['trace_peak_bytes'] / 1e9:.2f}",
        f"{record['parameters'] / 1e6:.3f}", flops, stage["launches"], collectives,
        f"{stage['memory']['peak_bytes'] / 1e9:.3f}",
        sum(wait["count"] for wait in stage["host_waits"]),
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    """Print a table of the suites that the command names."""
    words = sys.argv[1:]
    print(
        "| suite | devices | s | trace GB | parameters M | TFLOP | launches | collectives "
        "| peak GB | host waits |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for traced in TRACED:
        if words and traced.suite not in words:
            continue
        for world_size in traced.world_sizes:
            record, cpu_s = trace(traced, world_size)
            print(row(traced, world_size, record, cpu_s), flush=True)


if __name__ == "__main__":
    main()
