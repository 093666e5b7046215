from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RANK = """
import json, os, pathlib, sys
names = ("LOCAL_RANK", "WORLD_SIZE", "JAX_COORDINATOR_ADDRESS", "JAX_LOCAL_DEVICE_IDS",
         "JAX_COORDINATOR_BIND_ADDRESS")
written = json.dumps([os.environ.get(name) for name in names])
pathlib.Path(sys.argv[1], os.environ["RANK"]).write_text(written)
"""


@pytest.mark.parametrize(
    ("words", "first_rank", "world_size", "devices"),
    [
        (["--processes=2"], 0, "2", ["0", "1"]),
        (
            ["--processes=2", "--devices=4", "--nodes=3", "--node-rank=1", "--coordinator=n0:77"],
            2,
            "6",
            ["0,1,2,3", "4,5,6,7"],
        ),
    ],
)
def test_every_rank_gets_its_place_and_its_devices(
    tmp_path: Path, words: list[str], first_rank: int, world_size: str, devices: list[str]
):
    subprocess.run(
        [
            sys.executable, "-m", "pytest_dlperf.worker.jax_processes", *words, "--",
            sys.executable, "-c", RANK, str(tmp_path),
        ],
        env=dict(os.environ), check=True, timeout=60,
    )  # fmt: skip
    written = [json.loads((tmp_path / str(first_rank + rank)).read_text()) for rank in range(2)]
    assert [place[0] for place in written] == ["0", "1"]
    assert [place[1] for place in written] == [world_size] * 2
    [address] = {place[2] for place in written}
    assert address.startswith("n0:77" if "--nodes=3" in words else "127.0.0.1:")
    assert [place[3] for place in written] == devices
    # On a single node it listens on the loopback interface alone.
    assert {place[4] for place in written} == {None if "--nodes=3" in words else address}
