"""A program of two ranks whose logs alone are read, in turns by time under torchrun."""

from __future__ import annotations

import pytest

from tests.helpers.fake_repository import WIDE, git
from tests.helpers.user_folder import Folder

pytestmark = [pytest.mark.torch, pytest.mark.nightly]

#: Each rank prints; the launcher keeps a file of each.
TRAIN = """
import sys
import time

import torch
import torch.distributed as dist
from amount import WORK

dist.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(16, 64)
for step in range(1, int(sys.argv[1]) + 1):
    begin = time.perf_counter()
    for _ in range(WORK):
        torch.randn(100, 1000) @ torch.randn(1000, 100)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    rate = 16 / (time.perf_counter() - begin)
    print(f"iter {step} loss {float(loss.detach()):.5f} rate {rate:.3f} images/s")
del model
dist.destroy_process_group()
"""
TEST = r"""
import pytest
from pytest_dlperf import pattern

LINES = pattern(
    r"iter (?P<step>\d+) loss (?P<loss>\S+) rate (?P<rate>\S+) images/s",
    scope="device", unit="images",
)

@pytest.mark.dlperf(
    command=["python", "train.py", "300"], log_format=LINES, framework="torch", layout="1n2c",
    batch_size_per_device=16, warmup=20, iterations=300, timeout_s=300.0,
)
def test_net(dlperf):
    dlperf.run()
"""


def test_ranks_of_an_arm_stand_still_together(folder: Folder):
    git(folder, "init", "-q", "-b", "main")
    (folder.path / ".git/info/exclude").write_text("runtime\nr.json\n__pycache__\n")
    folder.write_file("train.py", TRAIN)
    folder.write_file("test_net.py", TEST)
    for work in (20, 5):
        folder.write_file("amount.py", f"WORK = {work}\n")
        git(folder, "add", "-A", ".")
        git(folder, "commit", "-q", "-m", f"{work}")
    _, [outcome] = folder.run("--dlperf-against=HEAD~1", "--dlperf-pairs=lock-step", WIDE)
    judgement = outcome["judgement"]
    assert judgement["verdict"] == "improved", judgement["reason"]
    assert judgement["change"] > 0.8
    assert set(outcome["against"]["order"]) == {"both"}
    codes = {problem["code"] for problem in outcome["measurement"]["problems"]}
    assert "turns-by-time" in codes
    for run in (*outcome["measurement"]["runs"], *outcome["against"]["measurement"]["runs"]):
        assert len(run["turns"]) >= 4
    assert folder.ours() == []
