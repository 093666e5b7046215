"""A run that failed: which rank the error names, and with which words."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import EndReason, RunEnd
from pytest_dlperf.measure.summary import summarise
from tests.helpers.record_files import case, rank_records, without, write


def test_the_error_names_the_rank_that_failed_first_with_its_traceback(tmp_path: Path):
    failure = {
        "record": "failure",
        "rank": 1,
        "code": "exception",
        "message": "ValueError: boom",
        "traceback": "Traceback\n  line 3, in step\nValueError: boom\n",
        "time": 5.0,
    }
    later = {
        "record": "failure",
        "rank": 0,
        "code": "exception",
        "message": "closed by peer",
        "traceback": "Traceback\nclosed by peer\n",
        "time": 6.0,
    }
    ranks = [
        [*without(rank_records(0), "end"), later],
        [*without(rank_records(1), "end"), failure],
    ]
    with pytest.raises(CaseError) as caught:
        summarise(case(), write(tmp_path, ranks, exit_code=1))
    text = str(caught.value)
    assert "rank 1: ValueError: boom" in text
    assert str(tmp_path / "output.log") in text
    assert "  line 3, in step\n    ValueError: boom" in text
    assert text.endswith("last words")


def test_a_lost_node_is_blamed_not_the_rank_whose_turns_ended_with_it(tmp_path: Path):
    noticed = {
        "record": "failure",
        "rank": 1,
        "code": "turns-ended",
        "message": "the process that gives both arms of a pair their turns has ended",
        "time": 6.0,
    }
    ranks = [without(rank_records(0), "end"), [*without(rank_records(1), "end"), noticed]]
    run = write(tmp_path, ranks, exit_code=1)
    gone = RunEnd(reason=EndReason.NODE_GONE, message="node2 was lost")
    with pytest.raises(CaseError) as caught:
        summarise(case(), replace(run, end=gone))
    assert caught.value.sentence.startswith("node2 was lost; ")


@pytest.mark.parametrize(
    "message",
    [
        "Connection reset by peer",
        "UnknownError: Horovod has been shut down. This was caused by an exception on one of the",
    ],
)
def test_a_rank_that_vanished_is_blamed_not_the_one_that_noticed(tmp_path: Path, message: str):
    noticed = {
        "record": "failure",
        "rank": 0,
        "code": "exception",
        "message": message,
        "time": 6.0,
    }
    ranks = [[*without(rank_records(0), "end"), noticed], without(rank_records(1), "end", "span")]
    run = write(tmp_path, ranks, exit_code=1)
    (tmp_path / "rank00000.progress").write_bytes(struct.pack("<qd", 14, 1.0))
    (tmp_path / "rank00001.progress").write_bytes(struct.pack("<qd", 13, 1.0))
    with pytest.raises(CaseError) as caught:
        summarise(case(), run)
    text = str(caught.value)
    assert "rank 1 stopped at iteration 13 of 20, without a word" in text
    assert text.index("rank 1 stopped") < text.index(message)
    assert text.endswith("last words")


def test_who_cannot_restore_a_checkpoint_notices_nobody_elses_end(tmp_path: Path):
    """The store of a process group is in such messages, and in this word."""
    message = "RuntimeError: cannot restore the checkpoint"
    raised = {
        "record": "failure",
        "rank": 0,
        "code": "exception",
        "message": message,
        "time": 6.0,
    }
    ranks = [[*without(rank_records(0), "end"), raised], without(rank_records(1), "end", "span")]
    with pytest.raises(CaseError) as caught:
        summarise(case(), write(tmp_path, ranks, exit_code=1))
    assert f"rank 0: {message}" in str(caught.value).partition("\n")[0]


def test_a_timeout_says_where_ranks_were(tmp_path: Path):
    ranks = [without(rank_records(r), "end") for r in (0, 1)]
    with pytest.raises(CaseError, match="timed out after 20 s; rank 0 stopped while being built"):
        summarise(case(), write(tmp_path, ranks, exit_code=-15, timed_out=True))


def test_a_launcher_that_says_all_is_well_is_not_believed(tmp_path: Path):
    with pytest.raises(CaseError, match="exit code 0, but the training did not end"):
        summarise(case(), write(tmp_path, [without(rank_records(0), "end")]))
