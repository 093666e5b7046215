"""Metrics of a run: the worst rank counts, and what ranks may not disagree about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.codec import decode, encode
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.metric import Figure
from pytest_dlperf.core.metrics import METRICS, gates_of
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.measure.summary import summarise
from tests.helpers.record_files import case, rank_records, write


def of_rank(rank: int, name: str, value: float, **meaning: str) -> list[dict[str, Any]]:
    one = {"value": value, "calls": 1, "unit": "", "better": "lower", **meaning}
    record = {"rank": rank, "record": "metrics", "values": {name: one}}
    return [*rank_records(rank), record]


@pytest.mark.parametrize(("better", "worst"), [("lower", 3.0), ("higher", 1.0)])
def test_the_worst_rank_counts(tmp_path: Path, better: str, worst: float) -> None:
    ranks = [of_rank(rank, "load", 1.0 + 2 * rank, better=better) for rank in range(2)]
    found, _ = summarise(case(), write(tmp_path, ranks))
    assert found.metrics["load"] == Figure(value=worst, better="lower" if worst == 3 else "higher")
    assert decode(RunSummary, encode(found)).metrics == found.metrics


def test_ranks_may_not_disagree_about_the_unit(tmp_path: Path) -> None:
    ranks = [of_rank(0, "load", 1.0), of_rank(1, "load", 1.0, unit="s")]
    with pytest.raises(CaseError, match="on rank 0, and unit 's', better 'lower' on rank 1"):
        summarise(case(), write(tmp_path, ranks))


def test_a_built_in_name_is_refused(tmp_path: Path) -> None:
    ranks = [of_rank(rank, "peak_memory", 1.0) for rank in range(2)]
    with pytest.raises(CaseError, match="metric peak_memory is a built-in name"):
        summarise(case(), write(tmp_path, ranks))


def test_cpu_time_is_that_of_all_ranks_for_each_unit_of_work(tmp_path: Path) -> None:
    run = write(tmp_path, [rank_records(rank) for rank in range(2)])
    found, _ = summarise(case(metrics={"cpu_per_unit": "5%"}), run)
    seconds = max(rank.seconds for rank in found.ranks)
    # Data workers are in it: the records say so of the window, not of single iterations.
    assert found.extras["cpu_seconds_of_ranks"] == 2 * 9 * 0.1
    per_unit = 2 * 9 * 0.1 / (found.throughput * seconds)
    assert found.metrics == {"cpu_per_unit": Figure(value=pytest.approx(per_unit), unit="s")}
    unknown = replace(found, extras={})
    assert METRICS["cpu_per_unit"].value(unknown, (0, 1)) is None


def test_instructions_are_those_of_all_ranks_for_each_unit_of_work(tmp_path: Path) -> None:
    ranks = [rank_records(rank) for rank in range(2)]
    for rank, instructions in zip(ranks, (3e9, 5e9), strict=True):
        [window] = [record for record in rank if record["record"] == "window"]
        window["counted"] = {"instructions": instructions}
    window["counted"]["cycles"] = 1e9  # of one rank alone: they say nothing of the case
    asked = case(metrics={"instructions_per_unit": None, "cycles_per_unit": None})
    found, _ = summarise(asked, write(tmp_path, ranks))
    work = found.throughput * max(rank.seconds for rank in found.ranks)
    assert found.metrics == {"instructions_per_unit": Figure(value=pytest.approx(8e9 / work))}
    assert "cycles_of_ranks" not in found.extras
    [problem] = found.problems
    assert problem.code == "metric-unknown"
    assert "perf_event_open" in problem.message


def test_the_fastest_block_is_a_tenth_of_the_window(tmp_path: Path) -> None:
    run = write(tmp_path, [rank_records(rank) for rank in range(2)])
    found, _ = summarise(case(), run)
    # Two iterations a block; one fast iteration of a slow block does not count by itself.
    steps = (9.0, 9.0, *(1.0, 5.0) * 5, *(2.0, 2.0), *(4.0, 4.0) * 4, 0.1)
    seen = replace(found, step_seconds=steps)
    value = METRICS["fastest_block"].value
    assert value(seen, (2, 22)) == 2.0
    assert value(seen, (2, 23)) == pytest.approx(2.0)  # the last block has three
    assert value(seen, (2, 11)) is None


def test_built_in_metrics_are_those_that_the_case_gates(tmp_path: Path) -> None:
    run = write(tmp_path, [rank_records(rank) for rank in range(2)])
    assert summarise(case(), run)[0].metrics == {}
    asked = case(metrics={"step_p95": "5%", "time_to_first_step": None, "graph_breaks": "count"})
    found = summarise(asked, run)[0].metrics
    assert found == {
        "step_p95": Figure(value=0.1, unit="s"),
        "time_to_first_step": Figure(value=2.5, unit="s"),
    }
    [problem] = summarise(asked, run)[0].problems
    assert problem.code == "metric-unknown"
    assert problem.message == (
        "metric graph_breaks is gated, and this run has none, so nothing is compared: it needs "
        "torch.compile"
    )
    assert asked.metrics == gates_of(
        {"step_p95": 0.05, "time_to_first_step": None, "graph_breaks": "count"}
    )
