"""Whether a clone has the tree of a commit; nothing is fetched to find out, or to make it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pytest_dlperf.core.arm import RefArm
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.arms.git import Preparation, missing_commit
from pytest_dlperf.launch.arms.make import Arms
from pytest_dlperf.launch.process.execute import execute
from tests.helpers.repository import Repository


@pytest.fixture
def upstream(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "upstream")
    repository.git("config", "uploadpack.allowFilter", "true")
    repository.commit("speed = 2\n")
    return repository


def clone(upstream: Repository, *options: str) -> Path:
    folder = upstream.path.with_name("clone")
    address = upstream.path.as_uri()
    subprocess.run(["git", "clone", "-q", *options, address, str(folder)], check=True)
    return folder


def in_clone(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_a_whole_clone_has_it(upstream: Repository):
    assert missing_commit(clone(upstream), upstream.first) == ""


def test_a_shallow_clone_has_not(upstream: Repository):
    words = missing_commit(clone(upstream, "--depth=1"), upstream.first)
    assert words.startswith(f"this clone is shallow and has no commit {upstream.first[:7]}")
    assert "fetch-depth: 0" in words


def test_a_commit_that_was_amended_and_collected_is_gone(upstream: Repository):
    gone = upstream.git("rev-parse", "HEAD")
    upstream.git("commit", "-q", "--amend", "-m", "other words")
    assert missing_commit(upstream.path, gone) == "", "not yet collected"
    upstream.git("reflog", "expire", "--expire=now", "--all")
    upstream.git("gc", "-q", "--prune=now")
    assert "was amended" in missing_commit(upstream.path, gone)


@pytest.mark.parametrize("left_out", ["blob:none", "tree:0"])
def test_what_a_partial_clone_left_out_is_never_fetched(upstream: Repository, left_out: str):
    folder = clone(upstream, f"--filter={left_out}")
    before = in_clone(folder, "count-objects", "-v")
    words = missing_commit(folder, upstream.first)
    assert words.startswith("this clone is partial and lacks files of commit")
    arms = Arms(
        folder=folder / ".dlperf/arms",
        rootdir=folder,
        python="python",
        preparation=Preparation(),
        execute=execute,
    )
    with pytest.raises(CaseError, match="this clone is partial"):
        arms.ready(RefArm(ref=upstream.first))
    assert in_clone(folder, "count-objects", "-v") == before
    in_clone(folder, "fetch", "-q", "--refetch", "--no-filter")
    assert missing_commit(folder, upstream.first) == "", "the remedy of the message"


def test_a_failure_of_git_is_no_missing_commit(upstream: Repository):
    first = upstream.first
    file = upstream.path / ".git/objects" / first[:2] / first[2:]
    file.chmod(0o600)
    file.write_bytes(b"")
    with pytest.raises(CaseError, match=r"git failed in .* (empty|corrupt)"):
        missing_commit(upstream.path, first)


def test_no_repository_and_no_git_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", os.fspath(tmp_path))
    (tmp_path / "plain").mkdir()
    with pytest.raises(CaseError, match="git has no repository for"):
        missing_commit(tmp_path / "plain", "0" * 40)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(CaseError, match="git cannot be started"):
        missing_commit(tmp_path / "plain", "0" * 40)
