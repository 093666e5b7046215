from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.arm import ReadyArm, Reported, Tree
from pytest_dlperf.launch.arms.apply import apply_arm
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.plan import make_plan

TARGET = Target(
    python="python3",
    python_path=("/home/worker", "/r/perf", "/r", "/elsewhere"),
    threads_per_rank=1,
    folder="/r/perf",
)
[CASE] = expand(suite="net", workload="m:build", batch_size_per_device=1, layout="1n1c")
[PROGRAM] = expand(suite="net", command=["python", "t.py"], batch_size_per_device=1, layout="1n1c")


def test_a_tree_takes_the_place_of_the_repository(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("PYTHONPATH", "/r/src:r/lib:/other:/r/.venv/lib/site-packages")
    arm = ReadyArm(name="v1", kind="ref", commit="c", tree=Tree(head="/r", arm="/t"))
    target = apply_arm(
        TARGET, arm, reported=Reported(trees=("/r", "/t"), modules_file="/w/modules")
    )
    plan = make_plan(PROGRAM, target, Path("/w"))
    assert plan.env["PYTHONPATH"].split(":") == [
        "/home/worker", "/t/perf", "/t", "/elsewhere",
        "/t/src", "/t/lib", "/other", "/r/.venv/lib/site-packages",
    ]  # fmt: skip
    assert plan.cwd == "/t/perf"
    assert plan.env["DLPERF_TREES"] == "/r:/t"
    assert plan.env["DLPERF_MODULES"] == "/w/modules"


def test_relative_entries_are_those_of_where_the_session_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"src:tests/x::{tmp_path}/lib:..")
    tree = Tree(head=str(tmp_path.resolve()), arm="/t")
    ref = apply_arm(TARGET, ReadyArm(name="v1", kind="ref", tree=tree), reported=Reported())
    here = apply_arm(TARGET, ReadyArm(name="here", kind="here"), reported=Reported())
    inherited = {
        name: make_plan(CASE, target, Path("/w")).env["PYTHONPATH"].split(":")[4:]
        for name, target in {"plain": TARGET, "here": here, "ref": ref}.items()
    }
    top = [f"{tmp_path}/{name}" for name in ("src", "tests/x", "lib")]
    assert inherited["plain"] == inherited["here"] == [*top, str(tmp_path.parent)]
    assert inherited["ref"] == ["/t/src", "/t/tests/x", "/t/lib", str(tmp_path.parent.resolve())]


def test_packages_come_right_after_the_worker(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir("/")
    monkeypatch.setenv("PYTHONPATH", "relative")
    arm = ReadyArm(name="a==1", kind="requirement", overlay="/o")
    plan = make_plan(CASE, apply_arm(TARGET, arm, reported=Reported()), Path("/w"))
    assert plan.env["PYTHONPATH"] == "/home/worker:/o:/r/perf:/r:/elsewhere:/relative"
    assert not {"DLPERF_TREES", "DLPERF_MODULES"}.intersection(plan.env)


def test_settings_reach_the_ranks_and_set_their_threads():
    arm = ReadyArm(name="s", kind="settings", variables={"OMP_NUM_THREADS": "3", "A": "b"})
    plan = make_plan(CASE, apply_arm(TARGET, arm, reported=Reported()), Path("/w"))
    assert (plan.env["OMP_NUM_THREADS"], plan.env["A"]) == ("3", "b")
    assert "--threads-per-rank=3" in plan.argv


def test_a_torch_that_is_only_laid_over_is_launched_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    [case] = expand(suite="net", workload="m:build", batch_size_per_device=1, layout="1n2c")
    base = replace(TARGET, python="/none/python3")
    arm = ReadyArm(name="torch==9", kind="requirement", overlay="/o")
    plan = make_plan(case, apply_arm(base, arm, reported=Reported()), Path("/w"))
    assert plan.argv[:3] == ("/none/python3", "-m", "torch.distributed.run")
    assert make_plan(case, base, Path("/w")).argv[0] == "torchrun"
