"""Profiles of real trainings of two ranks: an operator is found, a rank is killed."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch

SECRET = "hunter2-in-a-path"
#: In a folder that has the name of the secret.
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(32, 4)

    def forward(self, x):
        with torch.profiler.record_function("load::" + SECRET):
            return self.layer(x)
"""
TRAIN = """
import os
import runpy
import torch

class Witness:
    def __del__(self):
        open(os.environ["FREED"], "w").close()

def build(job):
    witness = Witness()
    secret = os.environ["MODEL_TOKEN"]
    file = os.path.join(os.path.dirname(__file__), secret, "net.py")
    model = job.data_parallel(runpy.run_path(file, {"SECRET": secret})["Net"]())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())

    def step():
        assert witness
        loss = model(x).square().mean()
        if os.environ["EXTRA"] == "yes":
            torch.linalg.vector_norm(x)
        job.backward(loss, optimizer)
        return loss

    return step
"""


@pytest.mark.nightly
def test_calls_that_one_arm_alone_has_are_in_the_tables(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
):
    """What a profile says of times depends on the machine, what it says of calls does not."""
    folder.write("train:build", suite="net", layout="1n2c", iterations=12, warmup=4,
                 runs=1, max_runs=1, speedup=None)  # fmt: skip
    (folder.path / "train.py").write_text(TRAIN, encoding="utf-8")
    (folder.path / SECRET).mkdir()
    (folder.path / SECRET / "net.py").write_text(NET, encoding="utf-8")
    monkeypatch.setenv("MODEL_TOKEN", SECRET)
    monkeypatch.setenv("EXTRA", "yes")
    freed = folder.path / "freed"
    monkeypatch.setenv("FREED", str(freed))
    _, (outcome,) = folder.run(
        "-p", "tests.helpers.no_repeats", "--dlperf-against=EXTRA=no", "--dlperf-explain=always",
        "--dlperf-html=page.html",
    )  # fmt: skip
    found = outcome["explanation"]
    assert found["note"] == ""
    rows = {row["operator"]: row for row in found["operators"] if row["path"] == ""}
    norm = rows["aten::linalg_vector_norm"]
    assert (norm["before_calls"], norm["after_calls"]) == (0, 1)
    total = sum(part["difference_ms"] for part in found["parts"])
    assert total == pytest.approx(found["after_ms"] - found["before_ms"])
    assert {"compute", "exposed communication", "Python and launches"} <= {
        part["part"] for part in found["parts"]
    }
    assert len(found["traces"]) == 2
    assert any("…/net.py(" in one["place"] for one in found["memory"]), "its own file"
    texts = [(folder.path / name).read_text("utf-8") for name in (folder.results, "page.html")]
    texts += [gzip.decompress(Path(trace).read_bytes()).decode() for trace in found["traces"]]
    assert [SECRET in text for text in texts] == [False] * 4
    assert all("load::…" in trace for trace in texts[2:])
    assert not freed.exists(), "a wrapper that is freed may wait for ever for a thread of gloo"


PROGRAM = """
import sys
import torch
import torch.distributed as dist
from pytest_dlperf.mark import step

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(8, 32), torch.randn(384, 384)
for _ in range(int(sys.argv[1])):
    with step(work=8) as s:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        s.loss(loss)
del model
dist.destroy_process_group()
"""


@pytest.mark.nightly  # the gate has its main way
def test_what_a_program_of_its_own_calls_now_is_named(folder: Folder):
    """Of the steps that it marks, against the version that was committed."""
    folder.write_file(
        "test_net.py",
        """
        import pytest
        @pytest.mark.dlperf(command=["python", "train.py", "{iterations}"], framework="torch",
                            layout="1n2c", batch_size_per_device=8, iterations=12, warmup=4,
                            runs=1, max_runs=1, speedup=None)
        def test_net(dlperf):
            dlperf.run()
        """,
    )
    train = folder.path / "train.py"
    train.write_text(PROGRAM, encoding="utf-8")
    for words in (["init", "-q"], ["add", "train.py", "test_net.py"], ["commit", "-qm", "."]):
        identity = ("-c", "user.name=t", "-c", "user.email=t@t")
        subprocess.run(["git", *identity, *words], cwd=folder.path, check=True)
    product = "        torch.mm(y, y)\n        loss.backward()\n"
    train.write_text(PROGRAM.replace("        loss.backward()\n", product), encoding="utf-8")
    _, (outcome,) = folder.run(
        "-p", "tests.helpers.no_repeats", "--dlperf-against=HEAD", "--dlperf-explain=always"
    )
    explanation = outcome["explanation"]
    assert explanation["note"] == ""
    rows = {row["operator"]: row for row in explanation["operators"] if row["path"] == ""}
    assert (rows["aten::mm"]["before_calls"], rows["aten::mm"]["after_calls"]) == (0, 1)
    assert "aten::mm" in explanation["sentence"]
    assert [row["rank"] for row in explanation["ranks"]] == [0, 1]


KILLED = """
import os
import signal
import torch

def build(job):
    model = job.data_parallel(torch.nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())

    def step():
        if job.rank == 1 and torch.autograd._profiler_enabled():
            os.kill(os.getpid(), signal.SIGKILL)
        loss = model(x).square().mean()
        job.backward(loss, optimizer)
        return loss

    return step
"""


@pytest.mark.nightly  # another session of two ranks
def test_a_rank_that_is_killed_while_it_profiles_changes_no_verdict(folder: Folder):
    folder.write("train:build", suite="net", layout="1n2c", iterations=12, warmup=4,
                 runs=2, max_runs=2, speedup=None, tolerance="90%")  # fmt: skip
    (folder.path / "train.py").write_text(KILLED, encoding="utf-8")
    _, (outcome,) = folder.run(
        "-p", "tests.helpers.no_repeats", "--dlperf-against=EXTRA=no", "--dlperf-explain=always"
    )
    # Which verdict it is depends on the machine; that of a run in which a rank died is error
    assert outcome["judgement"]["verdict"] != "error"
    assert "profile" not in outcome["judgement"]["reason"]
    assert outcome["measurement"]["throughput"] > 0
    found = outcome["explanation"]
    assert found["parts"] == []
    assert found["note"].startswith("the cause is not known: profile 1 of 4 failed (")
    # Torchrun's own words, and the rank: the other one saw that its peer was gone
    assert "rank 1 stopped at iteration 12 of 12, without a word" in found["note"]
    assert folder.ours() == []
