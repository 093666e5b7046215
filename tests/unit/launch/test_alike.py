"""What two folders add is the same for both arms of a pair, or drawn anew in each launch."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.arm import ReadyArm, RefArm, Reported, Tree
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.arms.alike import compile_alike, with_path_as_long
from pytest_dlperf.launch.arms.git import Preparation
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.base import Target
from pytest_dlperf.launch.plan import apply_arm, make_plan
from pytest_dlperf.launch.process.execute import execute
from tests.helpers.repository import Repository

[CASE] = expand(suite="net", workload="m:build", batch_size_per_device=1, layout="1n1c")
HERE = ReadyArm(name="this environment", kind="here")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "r")
    (made.path / "src").mkdir()
    return made


def arm_of(repository: Repository, *, setup: str = "") -> ReadyArm:
    arms = Arms(
        folder=repository.path / ".dlperf/arms",
        rootdir=repository.path,
        python=sys.executable,
        preparation=Preparation(setup=setup),
        execute=execute,
    )
    return arms.ready(RefArm(ref="HEAD"))


def target(repository: Repository, arm: ReadyArm) -> Target:
    path = ("/worker", str(repository.path / "src"), str(repository.path))
    plain = Target(
        python=sys.executable, python_path=path, threads_per_rank=1, folder=str(repository.path)
    )
    return apply_arm(plain, arm, reported=Reported())


def test_repositories_that_share_the_folder_of_trees_have_links_of_their_own(tmp_path: Path):
    links = []
    for name in ("a", "b"):
        tree = tmp_path / ("0" * 40)
        other = ReadyArm(
            name="0000000", kind="ref", tree=Tree(head=str(tmp_path / name), arm=str(tree))
        )
        made = with_path_as_long(HERE, other)
        assert made.tree is not None
        links.append(Path(made.tree.arm))
    assert [os.readlink(link) for link in links] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert {len(link.name) for link in links} == {40}


def test_a_module_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path):
    (tmp_path / "net.py").symlink_to("/proc/self/mem")
    code = Path(importlib.util.cache_from_source(str(tmp_path / "net.py")))
    code.parent.mkdir()
    code.touch()
    with pytest.raises(CaseError, match=r"cannot read .*net\.py: Input/output error"):
        compile_alike([tmp_path], ["net.py"])


@pytest.mark.parametrize("setup", ["", "true"])
def test_paths_of_both_arms_are_as_long_and_lead_to_their_own_files(
    repository: Repository, setup: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", f"{repository.path}/src:/other")
    before = arm_of(repository, setup=setup)
    now = with_path_as_long(HERE, before)
    (repository.path / "net.py").write_text("speed = 2\n")
    plans = [make_plan(CASE, target(repository, arm), Path("/run")) for arm in (now, before)]
    paths = [plan.env["PYTHONPATH"].split(os.pathsep) for plan in plans]
    assert [len(entry) for entry in paths[0]] == [len(entry) for entry in paths[1]]
    assert paths[0] != paths[1]
    files = [next(p for e in path if (p := Path(e, "net.py")).exists()) for path in paths]
    assert [file.read_text() for file in files] == ["speed = 2\n", "speed = 1\n"]
    assert files[0].resolve() == repository.path / "net.py"
    assert with_path_as_long(HERE, before) == now, "the link is found again"


def test_other_arms_stay_as_they_are(repository: Repository):
    before = arm_of(repository)
    assert with_path_as_long(before, HERE) == before
    requirement = ReadyArm(name="a==1", kind="requirement", overlay="/o")
    assert with_path_as_long(HERE, requirement) == HERE


def test_a_link_that_leads_elsewhere_is_made_again(repository: Repository, tmp_path: Path):
    before = arm_of(repository)
    now = with_path_as_long(HERE, before)
    assert now.tree is not None
    link = Path(now.tree.arm)
    link.unlink()
    link.symlink_to(tmp_path)
    with_path_as_long(HERE, before)
    assert link.resolve() == repository.path
    link.unlink()
    link.mkdir()
    (link / "x").touch()
    with pytest.raises(CaseError, match="cannot make"):
        with_path_as_long(HERE, before)


def environment_bytes(repository: Repository, arm: ReadyArm, workdir: str) -> int:
    env = make_plan(CASE, target(repository, arm), Path(workdir)).env
    return sum(len(name) + len(value) + 2 for name, value in env.items())


def test_the_length_of_the_environment_is_drawn_alike_for_both_arms(repository: Repository):
    before = arm_of(repository)
    now = with_path_as_long(HERE, before)
    lengths = [
        [environment_bytes(repository, arm, f"/s/{side}case/run{i}") for i in range(400)]
        for arm, side in ((now, ""), (before, "before/"))
    ]
    for drawn in lengths:
        within_page = [length % 4096 for length in drawn]
        assert min(within_page) < 100
        assert max(within_page) > 3996
        assert statistics.mean(within_page) == pytest.approx(2048, abs=4 * 1182 / 20)
    differing = sum(a != b for a, b in zip(*lengths, strict=True))
    assert differing > 390, "the sides of a pair are drawn apart"
    again = environment_bytes(repository, now, "/s/case/run0")
    assert again == lengths[0][0], "by the folder of the run"


def test_without_arms_the_environment_is_as_it_was(repository: Repository):
    plain = Target(python=sys.executable, python_path=("/worker",), threads_per_rank=1)
    assert "DLPERF_PADDING" not in make_plan(CASE, plain, Path("/run")).env
    assert "DLPERF_PADDING" in make_plan(CASE, target(repository, HERE), Path("/run")).env


def has_byte_code(file: Path) -> bool:
    return Path(importlib.util.cache_from_source(str(file))).exists()


def test_byte_code_is_there_of_the_same_modules(tmp_path: Path):
    names = ("ran.py", "never.py", "bad.py", "gone.py", "stale.py")
    trees = [tmp_path / "now", tmp_path / "before"]
    for tree in trees:
        tree.mkdir()
        for name in names:
            (tree / name).write_text("x = 1\n")
    for name in ("ran.py", "bad.py", "gone.py", "stale.py"):
        py_compile.compile(str(trees[0] / name))
    (trees[1] / "bad.py").write_text("x = = 1\n")
    (trees[1] / "gone.py").unlink()
    stale = trees[0] / "stale.py"
    old = Path(importlib.util.cache_from_source(str(stale))).read_bytes()
    stale.write_text("x = 1  # longer\n")
    os.utime(stale, (2_000_000_000, 2_000_000_000))
    compile_alike(trees, names)
    found = [{name for name in names if has_byte_code(tree / name)} for tree in trees]
    assert found[0] == {"ran.py", "bad.py", "gone.py", "stale.py"}
    assert found[1] == {"ran.py", "stale.py"}
    assert Path(importlib.util.cache_from_source(str(stale))).read_bytes() != old


def test_where_no_tree_has_any_none_is_made(tmp_path: Path):
    (tmp_path / "m.py").write_text("x = 1\n")
    compile_alike([tmp_path], ["m.py"])
    assert not has_byte_code(tmp_path / "m.py")


def test_horovod_waits_for_a_frozen_peer_in_the_launches_of_arms_alone(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
):
    name = "HOROVOD_GLOO_TIMEOUT_SECONDS"
    arm, plain = target(repository, HERE), replace(target(repository, HERE), padded=False)
    assert float(make_plan(CASE, arm, Path("/run")).env[name]) == CASE.protocol.timeout_s
    assert name not in make_plan(CASE, plain, Path("/run")).env
    monkeypatch.setenv(name, "90")
    assert name not in make_plan(CASE, arm, Path("/run")).env
