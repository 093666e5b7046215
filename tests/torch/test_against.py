"""Interleaved A/B with real trainings: a ref against the working tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.user_folder import HERE, Folder

pytestmark = pytest.mark.torch

TRAIN = """
import time
import torch
from net import PACE_S

def build(job):
    model = job.data_parallel(torch.nn.Linear(32, 4).to(job.device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(job.batch_size_per_device, 32, generator=job.generator())
    y = torch.randint(0, 4, (job.batch_size_per_device,), generator=job.generator())

    def step():
        loss = torch.nn.functional.cross_entropy(model(x), y)
        job.backward(loss, optimizer)
        time.sleep(PACE_S)
        return loss

    return step
"""


class Repository:
    """A repository whose training sleeps as long as a package in ``src`` says.

    What is asserted is what was trained and imported; which verdict comes of it depends on how
    busy the machine is.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.path = folder.path
        folder.write(
            "train:build", suite="net", layout="1n1c", iterations=12, warmup=4, runs=2, max_runs=2
        )
        (self.path / "train.py").write_text(TRAIN, encoding="utf-8")
        (self.path / "src").mkdir()
        (self.path / ".gitignore").write_text("r.json\nruntime\nenv\n__pycache__\n")
        self.git("init", "-q", "-b", "main")
        self.commit(0.002)

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@t")
        subprocess.run(["git", *identity, *arguments], cwd=self.path, check=True)

    def commit(self, pace_s: float) -> None:
        (self.path / "src/net.py").write_text(f"PACE_S = {pace_s}\n", encoding="utf-8")
        self.git("add", ".")
        self.git("commit", "-q", "-m", f"{pace_s}")

    def run(self, *arguments: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
        return self.folder.run("-p", "tests.helpers.no_repeats", *arguments)

    def imported(self, session: str) -> set[str]:
        """Return the files of the repository that the first run of an arm imported."""
        newest = sorted(self.path.glob(f".dlperf/{session}/net-torch*/run1/rank00000.jsonl"))[-1]
        lines = newest.read_text(encoding="utf-8").splitlines()
        [record] = [line for line in map(json.loads, lines) if line["record"] == "imports"]
        found = {os.path.relpath(file, self.path) for file in record["files"]}
        return {file for file in found if "/package/" not in file}


@pytest.fixture
def repository(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(folder)
    inherited = os.environ["PYTHONPATH"]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(made.path / "src"), inherited]))
    return made


def test_a_commit_that_made_a_step_slower(repository: Repository):
    repository.commit(0.012)
    result, [outcome] = repository.run("--dlperf-against=HEAD~1", "--dlperf-strict")
    assert result.ret == 1
    assert (outcome["against"]["name"], outcome["against"]["kind"]) == ("HEAD~1", "ref")
    assert set(outcome["against"]["order"]) == {"both"}
    arms = outcome["measurement"]["runs"] + outcome["against"]["measurement"]["runs"]
    assert [run["turns"] for run in arms] == [[4, 7, 10]] * len(arms)
    # No machine wakes a sleep earlier than it was told.
    assert all(min(run["step_seconds"]) >= 0.012 for run in outcome["measurement"]["runs"])
    runs = len(outcome["measurement"]["runs"])
    assert len(outcome["against"]["measurement"]["runs"]) == runs
    arm = f".dlperf/arms/{outcome['against']['commit']}"
    assert repository.imported("*/before") == {f"{arm}/src/net.py", f"{arm}/train.py"}
    assert repository.imported("*") == {"src/net.py", "train.py"}
    assert repository.folder.ours() == []


# With simulated time: test_head_on_a_clean_tree_is_a_null_and_says_so of tests/plugin.
@pytest.mark.nightly
def test_head_against_itself(repository: Repository):
    _, [outcome] = repository.run("--dlperf-against=HEAD", "--dlperf-alpha=0.01%")
    assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
    assert "this was a null" in outcome["judgement"]["reason"]
    if outcome["judgement"]["change"] is not None:
        assert {"cpu_seconds", "peak_memory", "whole_window"} == set(
            outcome["judgement"]["metrics"]
        )
    arm = f".dlperf/arms/{outcome['against']['commit']}"
    assert repository.imported("*/before") == {f"{arm}/src/net.py", f"{arm}/train.py"}


# The fake launcher has test_a_diff_that_no_case_imports_is_skipped_and_fails_nothing.
@pytest.mark.nightly
def test_a_change_that_the_training_does_not_import(repository: Repository):
    (repository.path / "src/unused.py").write_text("x = 1\n")
    repository.git("add", ".")
    repository.git("commit", "-qm", "more")
    result, [outcome] = repository.run("--dlperf-against=HEAD~1", "--dlperf-strict")
    assert result.ret == 0
    assert outcome["judgement"]["verdict"] == "not-run"
    assert (
        "differ in 1 file, none of which this case imports (2 files"
        in (outcome["judgement"]["reason"])
    )


# The fake launcher has test_an_error_of_the_other_arm_names_it.
@pytest.mark.nightly
def test_a_ref_without_the_workload(repository: Repository):
    repository.git("rm", "-q", "--cached", "train.py")
    repository.git("commit", "-qm", "without")
    repository.git("add", "train.py")
    repository.git("commit", "-qm", "with")
    _, [outcome] = repository.run("--dlperf-against=HEAD~1")
    assert outcome["judgement"]["verdict"] == "error"
    assert "against HEAD~1 (commit " in outcome["judgement"]["reason"]
    assert "no module named 'train'" in outcome["judgement"]["reason"]


# The fake launcher has test_arms_that_import_the_same_file_although_it_differs_are_an_error.
@pytest.mark.nightly
def test_an_editable_install_that_leads_both_arms_to_one_tree(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parents[1])]))
    python = editable(repository.path / "env", repository.path / "src")
    repository.commit(0.012)
    result, [outcome] = repository.run("--dlperf-against=HEAD~1", f"--dlperf-python={python}")
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    reason = outcome["judgement"]["reason"]
    assert "secretly an A/A: src/net.py differs between the arms" in reason
    assert str(repository.path / "src/net.py") in reason
    # The remedy that the sentence names.
    monkeypatch.setenv("PYTHONPATH", str(repository.path / "src"), prepend=os.pathsep)
    _, [outcome] = repository.run("--dlperf-against=HEAD~1", f"--dlperf-python={python}")
    assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
    assert outcome["against"]["measurement"] is not None
    arm = f".dlperf/arms/{outcome['against']['commit']}"
    assert repository.imported("*/before") == {f"{arm}/src/net.py", f"{arm}/train.py"}


# The same error as that of an editable install, from another folder.
@pytest.mark.nightly
def test_a_copy_in_site_packages_is_no_code_of_an_arm(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), str(HERE.parents[1])]))
    python = editable(repository.path / "env", repository.path / "nothing")
    [packages] = repository.path.glob("env/lib/python*/site-packages")
    repository.commit(0.012)
    shutil.copy(repository.path / "src/net.py", packages)
    result, [outcome] = repository.run("--dlperf-against=HEAD~1", f"--dlperf-python={python}")
    assert result.ret == 1
    assert "src/net.py differs between the arms" in outcome["judgement"]["reason"]
    assert str(packages / "net.py") in outcome["judgement"]["reason"]


def editable(folder: Path, source: Path) -> Path:
    """Make an environment with this one's packages, and ``source`` installed as editable."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "__editable__.net-1.0.pth").write_text(f"{source}\n", encoding="utf-8")
    these = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "these.pth").write_text("\n".join([*these, ""]), encoding="utf-8")
    return folder / "bin/python"


@pytest.mark.nightly  # the gate has a commit, and interpreters with fake ranks
def test_another_interpreter(repository: Repository):
    python = editable(repository.path / "env", repository.path / "src")
    _, [outcome] = repository.run(f"--dlperf-against={python}")
    assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
    assert outcome["against"]["kind"] == "interpreter"
    assert outcome["against"]["measurement"]["conditions"]["dtype"] == "float32"
