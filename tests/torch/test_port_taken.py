"""A port that is really taken: torchrun's own words, and a launch that is repeated."""

from __future__ import annotations

import socket
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tests.helpers.user_folder import Folder
from tests.helpers.written import written

pytestmark = pytest.mark.torch

#: A job as people start it by hand, on a port of their choice.
JOB = """
import os, subprocess, sys
sys.exit(subprocess.call([
    sys.executable, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=2",
    "--master-addr=127.0.0.1", f"--master-port={os.environ['TAKEN_PORT']}", "train.py",
]))
"""
TRAIN = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for step in range(1, 31):
    ones = torch.ones(4)
    dist.all_reduce(ones)
    if dist.get_rank() == 0:
        print(f"step {step}: 0.01 s", flush=True)
dist.destroy_process_group()
"""
TEST = """
import pytest
from pytest_dlperf import pattern

LOG = pattern(r"step (?P<step>[0-9]+): (?P<seconds>[0-9.]+) s", scope="device", unit="images")

@pytest.mark.dlperf(command=["python", "job.py"], log_format=LOG, layout="1n2c", launcher=None,
                    framework="torch", batch_size_per_device=4, unit="images", iterations=30,
                    warmup=10, runs=1, max_runs=1, speedup=None)
def test_net(dlperf):
    dlperf.run()
"""


def test_the_launch_is_repeated_once_the_port_is_free(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    for name, text in (("job", JOB), ("train", TRAIN), ("test_net", TEST)):
        (folder.path / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    with every_address() as taken:
        monkeypatch.setenv("TAKEN_PORT", str(taken.getsockname()[1]))
        freed = threading.Thread(target=free_once_failed, args=(folder.path, taken))
        freed.start()
        result, [outcome] = folder.run("-p", "tests.helpers.no_repeats")
        freed.join()
    assert outcome["measurement"] is not None, result.stdout.str()
    [problem] = [p for p in outcome["measurement"]["problems"] if p["code"] == "launch-retried"]
    assert "a port was taken: " in problem["message"]
    assert "EADDRINUSE" in problem["message"]
    [kept] = folder.path.glob(".dlperf/*/*/run1.failed*")
    assert "EADDRINUSE" in (kept / "output.log").read_text(encoding="utf-8")
    assert folder.ours() == []


def every_address() -> socket.socket:
    """Listen on a port of all addresses of this host, of both kinds where it has both."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def free_once_failed(folder: Path, taken: socket.socket) -> None:
    end_s = time.monotonic() + 120
    while not written(folder, ".dlperf/*/*/run1.failed1") and time.monotonic() < end_s:
        time.sleep(0.05)
    taken.close()
