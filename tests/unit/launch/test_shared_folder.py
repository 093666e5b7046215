"""The folder by which nodes that are started by hand know how the others ended."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.launch.plan import SharedFolder


def node(folder: Path, rank: int) -> SharedFolder:
    return SharedFolder(folder=folder, node_rank=rank)


def test_a_node_that_stops_reports_the_reason_to_the_others(tmp_path: Path):
    zero, one = node(tmp_path, 0), node(tmp_path, 1)
    with one.together():
        one.check_others()
        with pytest.raises(KeyError), zero.together():
            raise KeyError("boom")
        with pytest.raises(CaseError, match="node 0 stopped: 'boom'"):
            one.check_others()


def test_a_node_that_ends_well_stops_nobody(tmp_path: Path):
    with node(tmp_path, 1).together():
        with node(tmp_path, 0).together():
            pass
        node(tmp_path, 1).check_others()


def test_what_was_said_in_an_earlier_session_does_not_count(tmp_path: Path):
    one = node(tmp_path, 1)
    with pytest.raises(ValueError, match="boom"), node(tmp_path, 0).together():
        raise ValueError("boom")
    os.utime(tmp_path / "stopped.node0", (1, 1))
    with one.together():
        one.check_others()
        with pytest.raises(ValueError, match="again"), node(tmp_path, 0).together():
            raise ValueError("again")
        with pytest.raises(CaseError, match="again"):
            one.check_others()


def test_a_node_does_not_stop_for_its_own_words(tmp_path: Path):
    one = node(tmp_path, 1)
    with pytest.raises(ValueError, match="boom"), one.together():
        raise ValueError("boom")
    with one.together():
        one.check_others()


def test_node_0_alone_clears_the_records_of_earlier_sessions(tmp_path: Path):
    for number in (1, 2):
        node(tmp_path, 0).records(number).mkdir()
        (node(tmp_path, 0).records(number) / "rank00001.jsonl").touch()
    node(tmp_path, 1).clear(1)
    assert (tmp_path / "run1" / "rank00001.jsonl").exists()
    node(tmp_path, 0).clear(1)
    assert not (tmp_path / "run1" / "rank00001.jsonl").exists()
    assert (tmp_path / "run2" / "rank00001.jsonl").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(CaseError, match="cannot write to"), node(tmp_path / "file", 0).together():
        pass
