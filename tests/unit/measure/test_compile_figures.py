from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_dlperf.measure.summary import summarise
from tests.helpers.record_files import case, rank_records, write


def compiled(rank: int, **values: float) -> list[dict[str, Any]]:
    record = {
        "frames": 2, "seconds": 3.0, "frames_in_window": 0, "seconds_in_window": 0.0, **values,
    }  # fmt: skip
    return [*rank_records(rank), {"rank": rank, "record": "compile", **record}]


def test_seconds_of_compiling_are_told(tmp_path: Path):
    run = write(tmp_path, [compiled(0), compiled(1, seconds=4.0)])
    summary, _ = summarise(case(), run)
    assert summary.problems == ()
    assert summary.extras["compile_seconds"] == 4.0
    assert summary.extras["compiled_frames"] == 2
    assert summary.extras["recompiles_in_window"] == 0


def test_compiling_within_the_window_is_a_problem(tmp_path: Path):
    ranks = [compiled(0), compiled(1, frames_in_window=1, seconds_in_window=0.5)]
    summary, _ = summarise(case(), write(tmp_path, ranks))
    [problem] = summary.problems
    assert problem.code == "recompiled"
    assert "compiled 1 frame within the measured window, which took rank 1 0.5 s" in (
        problem.message
    )
    assert summary.extras["recompiles_in_window"] == 1
    assert summary.extras["compile_seconds_in_window"] == 0.5


def test_who_compiles_nothing_has_no_such_figures(tmp_path: Path):
    ranks = [compiled(0, frames=0, seconds=0.0), rank_records(1)]
    summary, _ = summarise(case(), write(tmp_path, ranks))
    assert "compile_seconds" not in summary.extras
