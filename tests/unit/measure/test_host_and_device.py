"""What the host did in the window against what its GPU did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.judge.problem_codes import UNSTEADY
from pytest_dlperf.measure.summary import summarise
from tests.helpers.record_files import case, changed, rank_records, write

CASE = case("1n1g")
PROBLEMS = {"clocks-disagree", "host-waits"}


def problems(folder: Path, *, timing: str = "device events", **window: Any) -> dict[str, str]:
    """Return the problems of ten measured steps of 0.1 s."""
    records = changed(rank_records(0, world_size=1), "framework", timing=timing)
    run = write(folder, [changed(records, "window", **window)])
    return {p.code: p.message for p in summarise(CASE, run)[0].problems if p.code in PROBLEMS}


@pytest.mark.parametrize("seconds", [0.97, 1.0, 1.03])
def test_clocks_that_agree(tmp_path: Path, seconds: float):
    assert problems(tmp_path, seconds=seconds) == {}


@pytest.mark.parametrize("seconds", [0.9, 1.1])
def test_clocks_that_disagree_are_no_measurement(tmp_path: Path, seconds: float):
    found = problems(tmp_path, seconds=seconds)
    assert (
        f"events say that the window took 1 s of rank 0, the host's clock says {seconds}"
        in (found["clocks-disagree"])
    )
    assert set(found) <= UNSTEADY


def test_laps_of_the_hosts_clock_are_not_compared(tmp_path: Path):
    assert problems(tmp_path, timing="host clock", seconds=1.5, steps_ahead=0) == {}


def test_a_host_that_runs_ahead(tmp_path: Path):
    assert problems(tmp_path, steps_ahead=9, host_losses=False) == {}
    # Marks say nothing of it.
    assert problems(tmp_path) == {}


def test_a_step_that_returns_a_number_is_said(tmp_path: Path):
    """A16: it was accepted without a word."""
    words = problems(tmp_path, steps_ahead=0, host_losses=True)["host-waits"]
    assert "ran ahead of its GPU in 0 of 10 steps" in words
    assert "step() returns its loss as a number" in words


def waiting(folder: Path, *, ahead: int = 0, **waits: Any) -> Any:
    records = changed(rank_records(0, world_size=1), "framework", timing="device events")
    records = changed(records, "window", steps_ahead=ahead, host_losses=False)
    run = write(folder, [[*records[:-1], {"record": "waits", **waits}, records[-1]]])
    return summarise(CASE, run)[0]


def test_what_the_waits_cost_is_said(tmp_path: Path):
    """A15."""
    found = waiting(tmp_path, step_seconds=0.1, queued_seconds=0.088)
    [words] = [p.message for p in found.problems if p.code == "host-waits"]
    assert (
        "which costs 12.0% of a step at least (88 ms where it is queued in time, 100 ms as it is)"
        in words
    )
    assert found.extras["host_wait_share"] == pytest.approx(0.12)


def test_waits_within_steps_that_are_ahead_at_their_end_are_said(tmp_path: Path):
    """As a scaler's, before a long update of the weights."""
    found = waiting(tmp_path, ahead=10, within=True, step_seconds=0.1, queued_seconds=0.09)
    [words] = [p.message for p in found.problems if p.code == "host-waits"]
    assert words.startswith("rank 0 waits for its GPU in the midst of each step")


def test_an_unknown_cost_is_said(tmp_path: Path):
    found = waiting(tmp_path, problem="StopIteration: the data are over")
    [words] = [p.message for p in found.problems if p.code == "host-waits"]
    assert "at an unknown cost (StopIteration: the data are over)" in words
    assert "host_wait_share" not in found.extras


def test_a_step_that_waits_within_is_said(tmp_path: Path):
    """A15: a loss scaler whose optimizer is not fused."""
    words = problems(tmp_path, steps_ahead=0, host_losses=False)["host-waits"]
    assert ".item(), a loss scaler" in words
