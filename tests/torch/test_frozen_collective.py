"""What ranks of PyTorch survive that are frozen within a collective, over gloo."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from pytest_dlperf.launch.base import free_port
from tests.helpers.frozen_collective import COUNT, freeze_within_collectives

pytestmark = pytest.mark.torch
PROGRAM = (
    COUNT
    + """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
ones = torch.ones(1 << 18)
while True:
    dist.all_reduce(ones)
    ones.fill_(1.0)
    count(dist.get_rank())
"""
)


def torchrun(program: str, *options: str) -> str:
    words = (sys.executable, "-m", "torch.distributed.run", "--max-restarts=0", *options)
    return " ".join((*words, program))


def command(launcher: str, folder: Path) -> list[str]:
    (folder / "program.py").write_text(PROGRAM, encoding="utf-8")
    program = f"{folder / 'program.py'} {folder}"
    port = free_port()
    if launcher == "torchrun":
        place = ("--nproc-per-node=2", f"--rdzv-endpoint=127.0.0.1:{port}", "--node-rank=0")
        return ["sh", "-c", f"exec {torchrun(program, *place)}"]
    if launcher == "c10d":  # two agents, which each watch the heartbeats of the other
        agent = torchrun(
            program, "--nproc-per-node=1", "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-id=one",
            f"--rdzv-endpoint=127.0.0.1:{port}", "--local-addr=127.0.0.1",
        )  # fmt: skip
        return ["sh", "-c", f"{agent} & {agent} & wait"]
    if shutil.which("mpirun") is None:
        pytest.skip("there is no mpirun here")
    as_root = "--allow-run-as-root" if os.geteuid() == 0 else ""
    from_mpi = f"{sys.executable} -m pytest_dlperf.worker.from_mpi {sys.executable} {program}"
    mpirun = f"mpirun {as_root} -np 2 --host localhost:2 --bind-to none {from_mpi}"
    return ["sh", "-c", f"MASTER_ADDR=127.0.0.1 MASTER_PORT={port} exec {mpirun}"]


# The gate freezes one rank, shortly.
@pytest.mark.parametrize(
    "who",
    [
        pytest.param("all", marks=pytest.mark.nightly),
        pytest.param("first", marks=pytest.mark.nightly),
        "last",
    ],
)
@pytest.mark.parametrize(
    ("launcher", "for_s"),
    [
        ("torchrun", 2.0),
        pytest.param("torchrun", 60.0, marks=pytest.mark.nightly),
        pytest.param("c10d", 60.0, marks=pytest.mark.nightly),
        pytest.param("mpirun", 60.0, marks=pytest.mark.nightly),
    ],
)
def test_it_goes_on(tmp_path: Path, launcher: str, for_s: float, who: str):
    freeze_within_collectives(tmp_path, command(launcher, tmp_path), who, for_s)
