from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.newest

RANK = """
import json, os, pathlib, sys, time
task = json.loads(os.environ["TF_CONFIG"])
rank = os.environ["RANK"]
pathlib.Path(sys.argv[1], rank).write_text(json.dumps([task, dict(os.environ), os.getpid()]))
if rank == "1":
    {last}
time.sleep({others_s})
"""


def start(folder: Path, last: str, others_s: float) -> subprocess.CompletedProcess[str]:
    program = RANK.format(last=last, others_s=others_s)
    return subprocess.run(
        [
            sys.executable, "-m", "pytest_dlperf.worker.tf_multiworker", "--processes=3", "--",
            sys.executable, "-c", program, str(folder),
        ],
        env=dict(os.environ), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_every_rank_gets_its_place(tmp_path: Path):
    assert start(tmp_path, "pass", others_s=0).returncode == 0
    written = [json.loads((tmp_path / str(rank)).read_text()) for rank in range(3)]
    addresses = written[0][0]["cluster"]["worker"]
    assert len(set(addresses)) == 3
    for rank, (task, environment, _) in enumerate(written):
        assert task["cluster"]["worker"] == addresses
        assert task["task"] == {"type": "worker", "index": rank}
        assert environment["LOCAL_RANK"] == str(rank)
        assert environment["WORLD_SIZE"] == "3"


@pytest.mark.once
@pytest.mark.parametrize(
    ("last", "status"),
    # Each waits for what is to end.
    [pytest.param("sys.exit(3)", 3, marks=pytest.mark.nightly), ("os.kill(os.getpid(), 9)", 137)],
)
def test_the_others_end_with_the_first_that_fails(tmp_path: Path, last: str, status: int):
    # They are there when it fails, so that they are what is ended.
    last = f"time.sleep(0.5); {last}"
    done = start(tmp_path, last, others_s=3600)
    assert done.returncode == status
    assert "rank 1 ended with" in done.stdout
    pids = [json.loads((tmp_path / str(rank)).read_text())[2] for rank in range(3)]
    end_s = time.monotonic() + 10
    while any(_lives(pid) for pid in pids):
        assert time.monotonic() < end_s, "a rank lives on"
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
