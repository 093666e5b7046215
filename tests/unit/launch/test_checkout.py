"""What git says of a folder; where it fails, that is said, and not taken for no repository."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.arms.checkout import Checkout, checkout_of
from pytest_dlperf.launch.arms.git import git

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b")


def run_git(folder: Path, *words: str | bytes) -> str:
    command = ["git", "-C", str(folder), *AUTHOR, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One commit of a file whose name is not UTF-8, and of a baseline."""
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    folder = tmp_path / "here"
    (folder / "baselines").mkdir(parents=True)
    run_git(folder, "init", "-q")
    for path in (odd_file(folder), folder / "baselines/b.json"):
        path.write_text("1")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "1")
    return folder


def odd_file(folder: Path) -> Path:
    return folder / os.fsdecode(b"caf\xe9")


def checkout(folder: Path) -> Checkout:
    return checkout_of(folder, outside=folder / "baselines")


def test_the_commit_and_whether_files_are_modified(repository: Path):
    commit = run_git(repository, "rev-parse", "HEAD")
    assert checkout(repository) == Checkout(commit)
    (repository / "baselines/b.json").write_text("2")
    assert checkout(repository) == Checkout(commit)
    odd_file(repository).write_text("2")
    assert checkout(repository) == Checkout(commit, dirty=True)


def test_no_repository_and_no_commit_yet_are_no_problem(repository: Path):
    plain = repository.parent / "plain"
    plain.mkdir()
    assert checkout(plain) == Checkout()
    run_git(plain, "init", "-q")
    assert checkout(plain) == Checkout()


def test_git_that_refuses_is_quoted(repository: Path, monkeypatch: pytest.MonkeyPatch):
    """As in a container job, whose checkout belongs to another user."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    found = checkout(repository)
    assert found == Checkout(problem=found.problem)
    assert found.problem.startswith("fatal: detected dubious ownership in repository at ")


def test_git_that_fails_after_its_first_answer_is_quoted(repository: Path):
    commit = run_git(repository, "rev-parse", "HEAD")
    (repository / ".git/index").write_bytes(b"no index")
    found = checkout(repository)
    assert found == Checkout(commit, problem=found.problem)
    assert "index file" in found.problem


@pytest.mark.parametrize("leaves", ["config", "nothing", "a file"])
def test_a_damaged_repository_is_a_problem(repository: Path, leaves: str):
    (repository / ".git/HEAD").unlink()
    if leaves == "a file":
        (repository / ".git").rename(repository.parent / "moved")
        (repository / ".git").write_text("gitdir: /nowhere/.git/worktrees/here\n")
    assert checkout(repository).problem.startswith("fatal: not a git repository")


def test_the_file_of_a_branch_that_a_power_cut_left_empty_is_a_problem(repository: Path):
    branch = run_git(repository, "symbolic-ref", "HEAD")
    (repository / ".git" / branch).write_text("")
    assert checkout(repository) == Checkout(problem=f"warning: ignoring broken ref {branch}")


def test_git_that_is_not_installed(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkout(repository).problem.startswith("git cannot be started")
    assert checkout_of(tmp_path, outside=tmp_path / "baselines") == Checkout()


def living_in(group: str) -> list[str]:
    """Return the processes of a group that nobody has ended."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (process / "stat").read_text(errors="replace")
            state, _, pgrp = text.rpartition(")")[2].split()[:3]
            found += [text] if pgrp == group and state != "Z" else []
    return found


def test_git_that_hangs_is_ended_and_said(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fake = tmp_path / "git"
    fake.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nsleep 600 &\nsleep 600\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setitem(git.__kwdefaults__, "limit_s", 0.5)
    found = checkout(repository)
    words = f"git rev-parse --verify did not answer within 0.5 s in {repository}"
    assert found == Checkout(problem=words)
    group = (tmp_path / "pid").read_text().strip()
    deadline_s = time.monotonic() + 20
    while living_in(group) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert not living_in(group)
    with pytest.raises(CaseError, match="did not answer"):
        git(repository, "status")


def test_a_repository_that_a_variable_names(repository: Path, monkeypatch: pytest.MonkeyPatch):
    commit = run_git(repository, "rev-parse", "HEAD")
    plain = repository.parent / "plain"
    plain.mkdir()
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(repository))
    assert checkout(plain) == Checkout(commit)
    # A hook's, which is relative to the top
    below = repository / "below"
    below.mkdir()
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.delenv("GIT_WORK_TREE")
    assert checkout(below) == Checkout(commit)
