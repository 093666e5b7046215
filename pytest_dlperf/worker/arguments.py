"""The worker's command line."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: How launchers tell a rank its place: the variables of its rank, its local rank, and the
#: number of ranks.
PLACES: Final = {
    "env": ("RANK", "LOCAL_RANK", "WORLD_SIZE"),
    "horovod": ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_SIZE"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"),
}


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """What a rank is told, and what its launcher put into the environment."""

    framework: str
    workload: str
    precision: str
    device: str
    size: str
    batch_size_per_device: int
    world_size: int
    iterations: int
    warmup: int
    threads_per_rank: int
    collective_timeout_s: float
    seed: int
    loss: str
    options: dict[str, Any]
    inject: float
    records: Path
    #: Which of ``PLACES`` the launcher uses.
    place: str
    rank: int
    local_rank: int
    #: The number of ranks that the launcher says there are.
    launched_world_size: int


def parse(argv: list[str] | None = None) -> Arguments:
    """Return the arguments of this rank; exits with a usage message if they do not fit."""
    parser = argparse.ArgumentParser(prog="python -m pytest_dlperf.worker")
    for name in ("framework", "workload", "precision", "device", "size", "loss"):
        parser.add_argument(f"--{name}", required=True)
    for name in (
        "batch-size-per-device",
        "world-size",
        "iterations",
        "warmup",
        "threads-per-rank",
        "seed",
    ):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--collective-timeout-s", type=float, required=True)
    parser.add_argument("--inject", type=float, default=0.0)
    parser.add_argument("--options", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("--records", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--place", choices=PLACES, default="env")
    parsed = parser.parse_args(argv)
    rank, local_rank, world_size = PLACES[parsed.place]
    return Arguments(
        **vars(parsed),
        rank=int(os.environ.get(rank, "0")),
        local_rank=int(os.environ.get(local_rank, "0")),
        launched_world_size=int(os.environ.get(world_size, "1")),
    )
