"""The worker's command line."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    #: Whether steps after the window tell of scaling.
    scaling: bool
    data: str | None
    records: Path
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
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--data", metavar="FOLDER")
    parser.add_argument("--options", type=json.loads, default={}, metavar="JSON")
    parser.add_argument("--records", type=Path, required=True, metavar="FOLDER")
    # Named by the launcher: which of several sets of variables is there would be a guess
    # where one launcher runs inside another's job.
    parser.add_argument(
        "--place-from",
        type=lambda text: text.split(","),
        default=["RANK", "LOCAL_RANK", "WORLD_SIZE"],
        metavar="RANK,LOCAL_RANK,WORLD_SIZE",
    )
    values = vars(parser.parse_args(argv))
    rank, local_rank, world_size = values.pop("place_from")
    return Arguments(
        **values,
        rank=int(os.environ.get(rank, "0")),
        local_rank=int(os.environ.get(local_rank, "0")),
        launched_world_size=int(os.environ.get(world_size, "1")),
    )
