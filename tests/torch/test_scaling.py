"""Facts about scaling from real trainings of two ranks."""

from __future__ import annotations

import json

import pytest

from pytest_dlperf.core.codec import decode
from pytest_dlperf.core.run import RunSummary, stored_scaling
from pytest_dlperf.judge.scaling import why
from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE

pytestmark = pytest.mark.torch


CASE = {"workload": "scaled:build", "speedup": None}


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """One that trains on, and one that ends with its iterations."""
    return run_together(
        tmp_path_factory.mktemp("scaled"),
        {"goes_on": CASE, "ends": {**CASE, "options": {"ends": True}}},
        workloads=HERE,
    )


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """One whose last rank is slow.

    From three runs on: of two ranks, two runs say nothing unless they agree to a few percent. With
    a fixed number of runs the first three sample what scaling is made of. Sleep is most of a step:
    that of rank 0 then hardly varies where others use the machine.
    """
    options = {"base_s": 0.03, "slow_s": 0.12}
    return run_together(
        tmp_path_factory.mktemp("slow"),
        {"slow": {**CASE, "options": options}},
        "--dlperf-runs=3",
        workloads=HERE,
        repeats=True,  # where others use the machine there are three runs all the same
    )


def runs_of(session: OneSession, name: str) -> tuple[RunSummary, ...]:
    measurement = session[name].measurement
    # Others may use the machine meanwhile: their runs tell of scaling all the same.
    found = [*measurement["runs"], *measurement["disturbed_runs"]]
    return tuple(decode(RunSummary, run) for run in found)


def records(run: RunSummary, rank: int) -> dict[str, dict[str, object]]:
    with open(f"{run.folder}/rank{rank:05d}.jsonl", encoding="utf-8") as file:
        return {record["record"]: record for record in map(json.loads, file)}


def test_collectives_are_sampled_and_change_nothing_that_is_checked(scaled: OneSession):
    run, ended = runs_of(scaled, "goes_on")[0], runs_of(scaled, "ends")[0]
    assert run.scaling is not None
    assert run.scaling.method == "steps without averaging"
    assert run.scaling.collective == "all-reduce"
    assert run.scaling.collectives_share is not None
    assert 0 <= run.scaling.collectives_share <= 1
    assert [rank.rank for rank in run.scaling.ranks] == [0, 1]
    for rank in run.scaling.ranks:
        assert rank.own_seconds is not None
        assert rank.own_seconds > 0
        assert rank.step_seconds > 0
    assert "65536" in run.scaling.all_reduce_gb_per_s
    assert all(rate > 0 for rate in run.scaling.all_reduce_gb_per_s.values())
    # One that could train no further did the same, and says what is not known.
    assert [problem.code for problem in run.problems if "collectives" in problem.code] == []
    [problem] = [one for one in ended.problems if one.code == "collectives-unknown"]
    assert "StopIteration" in problem.message
    assert ended.scaling is not None
    assert ended.scaling.collectives_share is None
    assert "65536" in ended.scaling.all_reduce_gb_per_s
    for rank in (0, 1):
        one, other = records(run, rank), records(ended, rank)
        assert one["checksum"]["value"] == other["checksum"]["value"]
        assert one["loss"]["values"] == other["loss"]["values"]
        assert len(one["loss"]["values"]) == 30  # type: ignore[arg-type]


@pytest.mark.nightly
def test_a_rank_that_is_slow_by_itself_is_named(slow: OneSession):
    runs = runs_of(slow, "slow")
    assert len(runs) >= 3
    for run in runs:
        assert run.scaling is not None
        own = {rank.rank: rank.own_seconds for rank in run.scaling.ranks}
        # It sleeps, which no machine makes shorter; rank 0 waits for it within its collectives.
        assert own[1] is not None
        assert own[1] >= 0.15
        assert run.scaling.ranks[0].step_seconds >= 0.15
    node = runs[0].ranks[1].node
    words = why(runs, [], "cpu")
    assert f"rank 1 on {node} is " in words
    assert "slower than the other" in words
    stored = stored_scaling(runs, "cpu")
    assert stored is not None
    assert len(stored.skews) == len(runs)
