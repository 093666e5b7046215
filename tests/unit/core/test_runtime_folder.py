"""Folders that are refused for locks: what others can write protects nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_dlperf.core import runtime_folder
from pytest_dlperf.core.errors import CaseError


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "run time"
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(path))
    return path


def test_it_is_made_for_its_owner_alone_under_any_umask(named: Path):
    before = os.umask(0)
    try:
        assert runtime_folder.folder() == named
    finally:
        os.umask(before)
    assert named.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o700, 0o750, 0o755])
def test_a_folder_that_others_can_only_read_is_taken(named: Path, mode: int):
    named.mkdir()
    named.chmod(mode)
    assert runtime_folder.folder() == named


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o2775, 0o720, 0o702])
def test_a_folder_that_others_can_write_is_refused_with_what_to_do(named: Path, mode: int):
    named.mkdir()
    named.chmod(mode)
    with pytest.raises(CaseError) as raised:
        runtime_folder.folder()
    assert str(raised.value) == (
        f"others than its owner can write {named} (mode {mode:04o}), and locks there would "
        f"protect nothing; `chmod go-w '{named}'`, or set DLPERF_RUNTIME_DIR to a folder of your "
        "own, which may be in this one"
    )


def test_a_link_to_a_folder_is_refused(named: Path, tmp_path: Path):
    (tmp_path / "mine").mkdir(mode=0o700)
    named.symlink_to(tmp_path / "mine")
    with pytest.raises(CaseError, match="not a folder of this user"):
        runtime_folder.folder()
