from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_dlperf.measure.summary import summarise
from tests.helpers.record_files import case, rank_records, write


def compiled(rank: int, **values: float | str) -> list[dict[str, Any]]:
    record = {
        "frames": 2, "seconds": 3.0, "frames_in_window": 0, "seconds_in_window": 0.0, **values,
    }  # fmt: skip
    return [*rank_records(rank), {"rank": rank, "record": "compile", **record}]


def test_seconds_of_compiling_are_recorded(tmp_path: Path):
    run = write(tmp_path, [compiled(0), compiled(1, seconds=4.0)])
    summary, _ = summarise(case(), run)
    assert summary.problems == ()
    assert summary.extras["compile_seconds"] == 4.0
    assert summary.extras["compiled_frames"] == 2
    assert summary.extras["recompiles_in_window"] == 0
    assert "compiled_graphs" not in summary.extras  # records of before have no graphs


def test_what_dynamo_says_of_its_graphs_is_among_the_figures(tmp_path: Path):
    counts = {"graphs": 3, "graph_breaks": 2, "recompiles": 0, "operators": 9}
    run = write(tmp_path, [compiled(0, **counts), compiled(1, **{**counts, "graphs": 4})])
    summary, _ = summarise(case(), run)
    assert summary.extras["compiled_graphs"] == 4
    assert summary.extras["compiled_operators"] == 9
    assert summary.extras["graph_breaks"] == 2
    assert summary.extras["recompiles"] == 0


def test_cuda_graphs_that_were_left_out_are_said(tmp_path: Path):
    ranks = [compiled(0, cudagraph_skips=0), compiled(1, cudagraph_skips=2)]
    summary, _ = summarise(case(), write(tmp_path, ranks))
    [problem] = summary.problems
    assert problem.code == "cuda-graphs-skipped"
    assert "left out the CUDA graphs of 2 compiled functions in rank 1" in problem.message


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


def test_what_xla_compiled_within_the_window_is_said_to_be_its_own(tmp_path: Path):
    again = {"compiler": "XLA", "frames_in_window": 1, "seconds_in_window": 0.5, "recompiles": 2}
    summary, _ = summarise(case(), write(tmp_path, [compiled(0), compiled(1, **again)]))
    [problem] = summary.problems
    assert problem.code == "recompiled"
    assert problem.message.startswith("XLA compiled 1 program within the measured window")
    assert "JAX_EXPLAIN_CACHE_MISSES=1" in problem.message
    assert summary.extras["recompiles"] == 2
