"""Each kind of arm, made for real: git repositories, pip, interpreters."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.arm import HereArm, parse_arm
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.arms.git import Preparation
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.process.execute import execute
from tests.helpers.repository import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "r")


def arms(path: Path, python: str = sys.executable, **fields: Any) -> Arms:
    return Arms(
        folder=path / ".dlperf/arms",
        rootdir=path,
        python=python,
        preparation=Preparation(**fields),
        execute=execute,
    )


def arm(text: str) -> Any:
    return parse_arm(text, what="x")


def test_a_ref_is_a_worktree_that_the_next_session_finds(repository: Repository):
    repository.commit("speed = 2\n")
    ready = arms(repository.path).ready(arm("HEAD~1"))
    assert (ready.name, ready.kind, ready.commit) == ("HEAD~1", "ref", repository.first)
    assert ready.tree is not None
    tree = Path(ready.tree.arm)
    assert (tree / "net.py").read_text() == "speed = 1\n"
    assert tree == repository.path / ".dlperf/arms" / repository.first
    made = tree.stat().st_ctime_ns
    assert arms(repository.path).ready(arm(repository.first[:10])).tree == ready.tree
    assert tree.stat().st_ctime_ns == made
    assert repository.worktrees() == 2


def test_a_tree_that_was_edited_or_interrupted_is_made_again(repository: Repository):
    name = repository.path / ".dlperf/arms" / repository.first
    first = arms(repository.path)
    first.ready(arm("HEAD"))
    (name / "net.py").write_text("speed = 9\n")
    with pytest.raises(CaseError, match="another session measures with it"):
        arms(repository.path).ready(arm("HEAD"))
    for used in first._trees._locks.values():
        os.close(used)
    arms(repository.path).ready(arm("HEAD"))
    assert (name / "net.py").read_text() == "speed = 1\n"
    (name / "net.py").unlink()
    name.with_name(f"{name.name}.done").unlink()
    arms(repository.path).ready(arm("HEAD"))
    assert (name / "net.py").exists()


def test_a_tree_that_was_deleted_by_hand_is_made_again(repository: Repository):
    arms(repository.path).ready(arm("HEAD"))
    shutil.rmtree(repository.path / ".dlperf")
    ready = arms(repository.path).ready(arm("HEAD"))
    assert ready.tree is not None
    assert Path(ready.tree.arm, "net.py").exists()


def test_the_oldest_trees_are_dropped_unless_somebody_uses_them(repository: Repository):
    def make(text: str, *, keep: bool) -> Path:
        commit = repository.commit(text)
        session = arms(repository.path)
        session.ready(arm("HEAD"))
        if not keep:
            for used in session._trees._locks.values():
                os.close(used)
        folder = repository.path / ".dlperf/arms" / commit
        os.utime(folder.with_name(f"{commit}.done"), (len(trees), len(trees)))
        return folder

    trees: list[Path] = []
    for number in range(5):
        trees.append(make(f"speed = {number}\n# {number}\n", keep=number == 1))
    assert [tree.exists() for tree in trees] == [False, True, True, True, True]
    assert repository.worktrees() == 5
    left = {path.name.partition(".")[0] for path in trees[0].parent.iterdir()}
    assert trees[0].name not in left


def test_a_merge_base_is_where_the_branch_left(repository: Repository):
    repository.git("checkout", "-q", "-b", "topic")
    repository.commit("speed = 2\n")
    repository.git("checkout", "-q", "main")
    repository.commit("speed = 3\n")
    repository.git("checkout", "-q", "topic")
    assert arms(repository.path).ready(arm("merge-base:main")).commit == repository.first


def test_a_setup_and_links_prepare_a_tree_of_their_own(repository: Repository):
    (repository.path / "data").mkdir()
    (repository.path / "data/x").write_text("x")
    plain = arms(repository.path).ready(arm("HEAD"))
    ready = arms(repository.path, setup="cat data/x > built; pwd", links=("data",)).ready(
        arm("HEAD")
    )
    assert plain.tree is not None
    assert ready.tree is not None
    assert plain.tree.arm != ready.tree.arm
    assert Path(ready.tree.arm, "built").read_text() == "x"
    assert Path(ready.tree.arm, "data").is_symlink()
    assert Path(f"{ready.tree.arm}.setup/output.log").read_text().strip() == ready.tree.arm


@pytest.mark.parametrize(
    ("fields", "text", "message"),
    [
        ({}, "nowhere", "has no commit 'nowhere'"),
        ({}, "merge-base:nowhere", "has no commit 'nowhere'"),
        ({"setup": "echo why; false"}, "HEAD", "(?s)'HEAD' was not built.*exit code 1.*    why"),
        ({"links": ("nothing",)}, "HEAD", "nothing does not exist"),
        ({"links": ("net.py",)}, "HEAD", "is tracked in 'HEAD'"),
        ({"links": ("../r",)}, "HEAD", "is not below"),
        ({}, "/no/such/python", "is not a program"),
        ({}, "/", "is a folder"),
        ({"python": "/no/such/python"}, "a==1", "cannot be started"),
        ({}, "no-such.whl", "does not exist"),
    ],
)
def test_what_cannot_be_made_says_why_and_leaves_nothing(
    repository: Repository, fields: dict[str, Any], text: str, message: str
):
    session = arms(repository.path, **fields)
    for _ in range(2):
        with pytest.raises(CaseError, match=message):
            session.ready(arm(text))
    assert repository.worktrees() == 1
    assert not list(repository.path.glob(".dlperf/arms/*.done"))


def test_a_branch_that_only_a_remote_has_is_named(repository: Repository):
    for remote in ("origin", "up/stream"):
        name = f"refs/remotes/{remote}/trunk"
        subprocess.run(["git", "update-ref", name, "HEAD"], cwd=repository.path, check=True)
    meant = "did you mean 'merge-base:origin/trunk'? Else look at git branch --all"
    with pytest.raises(CaseError, match=re.escape(meant)):
        arms(repository.path).ready(arm("merge-base:trunk"))


def test_a_folder_outside_of_git_has_no_refs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "plain").mkdir()
    with pytest.raises(CaseError, match="no commits to compare with: fatal: not a git repo"):
        arms(tmp_path / "plain").ready(arm("HEAD"))


def test_git_of_a_hook_does_not_mislead(repository: Repository, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert arms(repository.path).ready(arm("HEAD")).commit == repository.first


def test_an_interpreter_keeps_the_link_of_its_environment(tmp_path: Path):
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert arms(tmp_path).ready(arm(str(link))).python == str(link)


def test_settings_and_this_environment_need_no_making(tmp_path: Path):
    assert arms(tmp_path).ready(arm("A=1 B=2")).variables == {"A": "1", "B": "2"}
    assert arms(tmp_path).ready(HereArm()).words == "this environment"
    assert not (tmp_path / ".dlperf").exists()
