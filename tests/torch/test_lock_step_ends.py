"""Two arms in lock-step, with real ranks: one dies or hangs, or pytest is ended."""

from __future__ import annotations

import signal
import time

import pytest

from pytest_dlperf.launch.process.lease import lease_holder
from tests.helpers.fake_repository import git
from tests.helpers.processes import heed_interrupts
from tests.helpers.user_folder import Folder
from tests.helpers.written import written

pytestmark = pytest.mark.torch

TRAIN = """
import os
import time
from pathlib import Path

import torch
import net

def build(job):
    model = job.data_parallel(torch.nn.Linear(32, 4).to(job.device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.randint(0, 4, (job.batch_size_per_device,), generator=job.generator())
    done = 0

    def step():
        nonlocal done
        done += 1
        if done == 20:
            Path(os.environ["STEPPED"], f"rank-{os.getpid()}").touch()
            net.at_20()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        job.backward(loss, optimizer)
        time.sleep(0.01)
        return loss

    return step
"""
FINE = "def at_20():\n    pass\n"
FAULTS = {
    "dies": "import os\n\ndef at_20():\n    os.kill(os.getpid(), 9)\n",
    "hangs": "import time\n\ndef at_20():\n    time.sleep(1000)\n",
}
#: From the signal to SIGKILL, as CI systems have it.
CANCEL_S = 10.0


@pytest.fixture
def repository(folder: Folder) -> Folder:
    """Return a repository with one commit, which trains without a fault."""
    folder.write(
        "train:build",
        suite="net",
        layout="1n2c",
        iterations=150,
        warmup=10,
        runs=1,
        timeout_s=120.0,
    )
    folder.write_file("train.py", TRAIN)
    (folder.path / "stepped").mkdir()
    folder.write_file(".gitignore", "r.json\nruntime\nstepped\n__pycache__\n.dlperf\n")
    folder.environment["STEPPED"] = str(folder.path / "stepped")
    git(folder, "init", "-q", "-b", "main")
    commit(folder, FINE)
    return folder


def commit(folder: Folder, net: str) -> None:
    folder.write_file("net.py", net)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "--allow-empty", "-m", "net")


def wait_until_gone(folder: Folder) -> float:
    """Wait until no process of a run lives and the host is free; return the seconds it took."""
    began_s = time.monotonic()
    while folder.ours() or lease_holder() is not None:
        assert time.monotonic() - began_s < 60, folder.ours()
        time.sleep(0.05)
    return time.monotonic() - began_s


@pytest.mark.parametrize(
    ("fault", "is_now"),
    [
        ("dies", False),
        pytest.param("dies", True, marks=pytest.mark.nightly),
        pytest.param("hangs", True, marks=pytest.mark.nightly),
        pytest.param("hangs", False, marks=pytest.mark.nightly),
    ],
)
def test_an_arm_that_fails_ends_the_other_one(repository: Folder, fault: str, is_now: bool):
    for net in (FINE, FAULTS[fault]) if is_now else (FAULTS[fault], FINE):
        commit(repository, net)
    limit = ["--dlperf-timeout=15"] if fault == "hangs" else []
    result, [outcome] = repository.run(
        "--dlperf-against=HEAD~1", "--dlperf-pairs=lock-step", *limit
    )
    assert result.ret == 1
    judgement = outcome["judgement"]
    assert judgement["verdict"] == "error"
    says = "it was killed" if fault == "dies" else "timed out"
    assert says in judgement["reason"]
    assert ("against HEAD~1" in judgement["reason"]) is not is_now
    assert repository.ours() == []
    assert lease_holder() is None


@pytest.mark.parametrize(
    ("number", "status"),
    [
        pytest.param(signal.SIGKILL, -9, marks=pytest.mark.nightly),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly),
        pytest.param(signal.SIGINT, 2, marks=pytest.mark.nightly),
    ],
)
def test_the_end_of_pytest_ends_both_arms(repository: Folder, number: signal.Signals, status: int):
    session = repository.start(
        "--dlperf-against=HEAD", "--dlperf-pairs=lock-step", preexec_fn=heed_interrupts
    )
    # Four ranks: two of each arm, which have been in their windows
    while len(written(repository.path / "stepped", "rank-*")) < 4:
        assert session.poll() is None
        time.sleep(0.05)
    session.send_signal(number)
    assert session.wait(timeout=60) == status
    assert wait_until_gone(repository) < CANCEL_S
    # The next session has the host, and its pairs
    (repository.path / "r.json").unlink(missing_ok=True)
    _, [outcome] = repository.run("--dlperf-against=HEAD", "--dlperf-max-runs=1")
    assert outcome["against"]["order"], outcome["judgement"]["reason"]
