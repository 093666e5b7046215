"""From the ranks' records to the share of collectives, and to what is stored of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.codec import decode, encode
from pytest_dlperf.core.run import RunSummary, own_seconds, skews, stored_scaling
from pytest_dlperf.measure.summary import summarise
from tests.helpers.record_files import case, changed, rank_records, write


def told(rank: int, step: float, own: float | None, spent: float | None) -> list[dict[str, Any]]:
    rates = {"65536": 0.2 + 0.1 * rank, "1048576": 1.0} | ({} if rank else {"4194304": 2.0})
    return [
        *changed(rank_records(rank), "start", node=f"n{rank + 1}"),
        {
            "rank": rank,
            "record": "collectives",
            "method": "steps without averaging",
            "collective": "all-reduce",
            "iterations": 3,
            "step_seconds": step,
            "own_seconds": own,
            "collective_seconds": spent,
        },
        {"rank": rank, "record": "all_reduce", "gb_per_s": rates},
    ]


def test_the_share_is_that_of_the_rank_that_waits_least(tmp_path: Path):
    # Rank 0 waits for rank 1, which works for 0.09 of 0.1 s.
    ranks = [told(0, 0.1, 0.05, 0.05), told(1, 0.1, 0.09, 0.01)]
    summary, _ = summarise(case(), write(tmp_path, ranks))
    assert summary.scaling is not None
    assert summary.scaling.collectives_share == pytest.approx(0.1)
    assert [rank.node for rank in summary.scaling.ranks] == ["n1", "n2"]
    assert summary.scaling.all_reduce_gb_per_s == {"65536": 0.2, "1048576": 1.0}
    assert decode(RunSummary, encode(summary)) == summary
    basis, [own] = own_seconds([summary], "cpu")
    assert basis == "own steps"
    assert skews(own)[1] == pytest.approx(-skews(own)[0]) == pytest.approx(0.5878, abs=1e-4)
    stored = stored_scaling([summary, summary], "cpu")
    assert stored is not None
    assert stored.collectives_shares == (0.1, 0.1)
    assert stored.skews == (0.8, 0.8)


def test_a_timeline_has_its_rank_alone(tmp_path: Path):
    ranks = [told(0, 0.1, None, 0.04), told(1, 0.1, None, None)]
    summary, _ = summarise(case(), write(tmp_path, ranks))
    assert summary.scaling is not None
    assert summary.scaling.collectives_share == pytest.approx(0.4)
    # Own steps are not known, the CPU seconds of the window are; those of GPU ranks say nothing.
    basis, [spent] = own_seconds([summary], "cpu")
    assert (basis, spent) == ("CPU seconds", pytest.approx({0: 0.9, 1: 0.9}))
    assert own_seconds([summary], "gpu") == ("", [])


def test_cpu_seconds_of_all_runs_show_more_than_steps_of_too_few(tmp_path: Path):
    sampled, _ = summarise(case(), write(tmp_path, [told(0, 1, 0.5, 0.5), told(1, 1, 0.9, 0.1)]))
    plain, _ = summarise(case(), write(tmp_path / "p", [rank_records(0), rank_records(1)]))
    runs = [sampled, plain, plain]
    assert own_seconds(runs, "cpu") == ("own steps", [{0: 0.5, 1: 0.9}])
    basis, spent = own_seconds(runs, "cpu", fewest=2)
    assert (basis, len(spent)) == ("CPU seconds", 3)
    assert own_seconds(runs, "gpu", fewest=2) == ("own steps", [{0: 0.5, 1: 0.9}])
    assert own_seconds([*runs, sampled], "cpu", fewest=2)[0] == "own steps"
    stored = stored_scaling(runs, "cpu")
    assert stored is not None
    assert (stored.skew_of, stored.skews) == ("own steps", (0.8,))


def test_what_nobody_reported_is_unknown_and_never_0(tmp_path: Path):
    ranks = [told(rank, 0.1, None, None) for rank in (0, 1)]
    summary, _ = summarise(case(), write(tmp_path, ranks))
    assert summary.scaling is not None
    assert summary.scaling.collectives_share is None
    old, _ = summarise(case(), write(tmp_path / "old", [rank_records(0), rank_records(1)]))
    assert old.scaling is None
    assert stored_scaling([old], "cpu") is None


def test_a_workload_without_further_iterations_is_a_problem_that_is_reported(tmp_path: Path):
    ranks = [told(rank, 0.1, 0.05, 0.05) for rank in (0, 1)]
    ranks[1] = [r for r in ranks[1] if r["record"] != "collectives"]
    ranks[1].append({"rank": 1, "record": "collectives", "problem": "StopIteration: "})
    summary, _ = summarise(case(), write(tmp_path, ranks))
    [problem] = summary.problems
    assert problem.code == "collectives-unknown"
    assert "rank 1: StopIteration" in problem.message
    assert summary.scaling is not None
    assert summary.scaling.collectives_share is None
    assert summary.scaling.all_reduce_gb_per_s
