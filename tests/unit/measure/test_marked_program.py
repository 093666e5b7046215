"""What a program of its own marked: a measurement, or an error that says what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.flow.user_program import summarise_program
from pytest_dlperf.measure.nodes import check_node_part
from tests.helpers.record_files import case, marked_records, without, write


def program(layout: str = "1n1c", **keys: Any) -> Case:
    return case(layout, command=["python", "x.py"], **keys)


@pytest.mark.parametrize(
    ("code", "words"),
    [(3, "the program ended with exit code 3"), (-9, "the program was killed by signal 9")],
)
def test_a_program_that_fails_after_its_steps_is_an_error(tmp_path: Path, code: int, words: str):
    run = write(tmp_path, [marked_records(world_size=1)], exit_code=code)
    with pytest.raises(CaseError, match=words) as caught:
        summarise_program(program(), run)
    assert "every rank had trained its 20 iterations before" in str(caught.value)
    with pytest.raises(CaseError, match=words):
        check_node_part(program(), run, 0)


def test_a_program_that_never_ends_is_an_error(tmp_path: Path):
    run = write(tmp_path, [marked_records(world_size=1)], exit_code=-15, timed_out=True)
    with pytest.raises(CaseError, match="timed out after 20 s"):
        summarise_program(program(), run)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"seconds": 2e-6}, "a marked step lasts 2 microseconds"),
        ({"seconds": 2e-6, "imported": ["torch"]}, "a marked step lasts 2 microseconds"),
        ({"seconds": 0.01, "imported": []}, "no process that marks has imported a framework"),
    ],
)
def test_a_program_that_trains_nothing_is_an_error(
    tmp_path: Path, values: dict[str, Any], words: str
):
    run = write(tmp_path, [marked_records(world_size=1, **values)])
    with pytest.raises(CaseError, match=f"the program trained nothing: {words}.*s\\.loss"):
        summarise_program(program(), run)


@pytest.mark.parametrize(
    "values",
    [
        {"seconds": 0.0001, "imported": ["jax"]},
        {"seconds": 0.01, "imported": ["numpy"]},
        {"seconds": 0.01, "imported": [], "losses": [1.0, 0.5]},
        {"seconds": 2e-6, "imported": [], "losses": [1.0, 0.5]},
    ],
)
def test_a_program_that_may_train_is_measured(tmp_path: Path, values: dict[str, Any]):
    run = write(tmp_path, [marked_records(world_size=1, **values)])
    summary, _ = summarise_program(program(), run)
    assert summary.throughput == pytest.approx(4 / values["seconds"])


def test_a_gpus_time_may_all_be_in_the_last_step(tmp_path: Path):
    """Steps that are only handed to a GPU: it is waited for where the window ends."""
    records = marked_records(world_size=1, seconds=5e-6, imported=["torch"])
    for record in records:
        if record["record"] == "memory":
            record["kind"] = "gpu-allocated"
        if record["record"] == "span" and record["last_step"] == 19:
            record["seconds"] = 0.01
    summary, _ = summarise_program(program(), write(tmp_path, [records]))
    assert summary.throughput == pytest.approx(40 / 0.010045)


def test_two_processes_that_mark_as_one_rank_are_named(tmp_path: Path):
    run = write(tmp_path, [marked_records(world_size=1)])
    line = json.dumps({"rank": 0, "pid": 77, "node": "n2"})
    (tmp_path / "rank00000.conflict").write_text(line + "\n" + line + "\n")
    with pytest.raises(CaseError) as caught:
        summarise_program(program(), run)
    assert "2 processes marked as rank 0 (pid 1 on n1, pid 77 on n2); give" in str(caught.value)


def test_more_ranks_than_the_layout_has_are_named(tmp_path: Path):
    run = write(tmp_path, [marked_records(0), marked_records(1)])
    with pytest.raises(CaseError, match="marked as rank 1, and 1n1c has ranks 0 to 0"):
        summarise_program(program(), run)


def test_a_loss_that_is_no_number_is_an_error(tmp_path: Path):
    run = write(tmp_path, [marked_records(world_size=1, losses=[1.0, "nan"])])
    with pytest.raises(CaseError, match="not a finite number"):
        summarise_program(program(), run)


def test_a_failure_within_a_step_is_reported_before_its_ranks_others(tmp_path: Path):
    records = without(marked_records(world_size=1), "end", "span")
    failure = {"code": "exception", "message": "ValueError: boom", "time": 1.0}
    records.append({"rank": 0, "record": "failure", **failure})
    run = write(tmp_path, [records], exit_code=1)
    with pytest.raises(CaseError, match="rank 0: ValueError: boom"):
        summarise_program(program(), run)


def test_the_canary_of_a_program_is_its_ranks_slowest(tmp_path: Path):
    """Before and after the window are one figure; the clock of one core may have fallen."""
    ranks = [marked_records(rank, world_size=2) for rank in range(2)]
    for rank, rates in enumerate(((1.6, 1.6), (1.5, 1.3))):
        ranks[rank] += [
            {"record": "canary", "when": when, "hash_gb_per_s": rate, "time": 5.0}
            for when, rate in zip(("before", "after"), rates, strict=True)
        ]
    summary, _ = summarise_program(program("1n2c"), write(tmp_path, ranks))
    assert summary.canary == {"hash_gb_per_s": pytest.approx(1.4)}


@pytest.mark.parametrize("unwatched", ["", "its step is compiled"])
def test_a_program_whose_precision_was_to_be_checked_and_was_not_has_a_note(
    tmp_path: Path, unwatched: str
):
    checksum = {"record": "checksum", "rank": 0, "value": {"digest": "same", "tensors": 2}}
    seen = {"unwatched": unwatched} if unwatched else {}
    records = [*marked_records(world_size=1), checksum | seen]
    summary, _ = summarise_program(program(), write(tmp_path, [records]))
    found = [problem for problem in summary.problems if problem.code == "checked-in-part"]
    assert [unwatched in problem.message for problem in found] == ([True] if unwatched else [])
