"""Why speedup fell: what is said of ranks and collectives, and what is left unsaid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import (
    RankScaling,
    RankSummary,
    RunSummary,
    Scaling,
    StoredScaling,
    stored_scaling,
)
from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.scaling import why
from pytest_dlperf.judge.verdict import judge_pairs
from tests.helpers.judge_builders import around, baseline, case, measurement, run, session

GPU = case("2n4g")
RULE = Rule(family=24)
METHOD = "steps without averaging"
#: Runs differ by as much, in parts of a rank's own time.
JITTER = (0.0, 0.004, -0.003, 0.002, -0.004)


def sampled(
    share: float | None, own: Sequence[float] = (1.0,) * 8, *, per_node: int = 4, **fields: Any
) -> RunSummary:
    step = max(own) / (1 - (share or 0.0))
    ranks = tuple(
        RankScaling(
            rank=rank,
            node=f"node{rank // per_node + 1}",
            step_seconds=step,
            own_seconds=seconds,
            collective_seconds=step - seconds,
        )
        for rank, seconds in enumerate(own)
    )
    scaling = Scaling(method=METHOD, ranks=ranks, collectives_share=share)
    return replace(run(100.0), scaling=replace(scaling, **fields))


def five(share: float, own: Sequence[float] = (1.0,) * 8, **fields: Any) -> list[RunSummary]:
    """Five runs with some noise, which differs by rank."""
    return [
        sampled(
            share + jitter,
            [s * (1 + JITTER[(i + r) % 5]) for r, s in enumerate(own)],
            **fields,
        )
        for i, jitter in enumerate(JITTER)
    ]


def stored(share: float, skew: float = 0.005, **fields: Any) -> StoredScaling:
    shares = tuple(share + jitter for jitter in JITTER)
    made = StoredScaling(
        method=METHOD, collectives_shares=shares, skew_of="own steps", skews=(skew,) * 5
    )
    return replace(made, **fields)


def test_a_share_that_grew_is_named_with_what_it_was() -> None:
    assert why(five(0.41), [stored(0.23)], "gpu") == "all-reduce 41 % of the step, was 23 %"
    assert why(five(0.41), [None, stored(0.23)], "gpu").endswith("was 23 %")
    assert why([sampled(0.41)], [stored(0.23)], "gpu").endswith("was 23 %")


def test_a_share_of_which_nothing_is_stored_is_named_alone() -> None:
    for before in ([], [None], [stored(0.2, method="another")]):
        assert why(five(0.41), before, "gpu") == "all-reduce 41 % of the step"
    assert why(five(0.02), [], "gpu") == ""
    assert why(five(0.41, collective="collectives"), [], "gpu").startswith("collectives 41 %")


@pytest.mark.parametrize(
    ("now", "before"),
    [
        (five(0.41), stored(0.40)),
        (five(0.23), stored(0.41)),
        ([sampled(0.30)], stored(0.23)),
        ([sampled(s) for s in (0.1, 0.5, 0.3, 0.6, 0.2)], stored(0.23)),
        ([sampled(None)] * 5, stored(0.23)),
        ([run(100.0)] * 5, stored(0.23)),
    ],
)
def test_a_share_that_is_within_noise_or_unknown_is_not_named(
    now: list[RunSummary], before: StoredScaling
) -> None:
    assert why(now, [before], "gpu") == ""


def test_a_slow_rank_is_named_with_its_node() -> None:
    own = [1.0, 1.0, 1.0, 1.0, 1.0, 1.18, 1.0, 1.0]
    assert why(five(0.02, own), [stored(0.02)], "gpu") == (
        "rank 5 on node2 is 18 % slower than the others"
    )
    both = why(five(0.41, own), [stored(0.23)], "gpu")
    assert both == (
        "rank 5 on node2 is 18 % slower than the others, all-reduce 41 % of the step, was 23 %"
    )
    two = why(five(0.02, [1.0, 1.5], per_node=1), [], "gpu")
    assert two == "rank 1 on node2 is 50 % slower than the other"


def test_runs_that_sampled_nothing_do_not_keep_a_slow_rank_from_being_named() -> None:
    own = [1.0, 1.0, 1.0, 1.0, 1.0, 1.18, 1.0, 1.0]
    first, *_, last, one_more = five(0.41, own)
    runs = [first, run(100.0), run(100.0), last, one_more]
    assert why(runs, [stored(0.23)], "gpu") == (
        "rank 5 on node2 is 18 % slower than the others, all-reduce 41 % of the step, was 23 %"
    )


def test_a_slow_node_is_named_in_place_of_its_ranks() -> None:
    own = [1.0] * 4 + [1.2, 1.21, 1.19, 1.22]
    assert why(five(0.02, own), [], "gpu") == "each rank of node2 is 20 % slower than the others"


def test_ranks_that_differ_within_noise_are_not_named() -> None:
    assert why(five(0.02), [], "gpu") == ""
    slow_once = [*five(0.02)[:4], sampled(0.02, [1.0] * 7 + [1.5])]
    assert why(slow_once, [], "gpu") == ""
    # A single run tells nothing of noise.
    assert why([sampled(0.02, [1.0] * 7 + [1.5])], [], "gpu") == ""
    # It was so before.
    own = [1.0] * 7 + [1.18]
    assert why(five(0.02, own), [stored(0.02, skew=0.17)], "gpu") == ""


def test_ranks_on_cpus_are_compared_by_cpu_time_where_own_steps_are_unknown() -> None:
    def ranks(extra: float) -> tuple[RankSummary, ...]:
        return tuple(
            RankSummary(rank=r, node="n1", seconds=2.0, cpu_seconds=s, peak_memory_bytes=None,
                        loss_first=None, loss_last=None)
            for r, s in enumerate((1.0 - extra, 1.0, 1.3))
        )  # fmt: skip

    runs = [replace(run(100.0), ranks=ranks(extra)) for extra in (0.01, 0.02, 0.0)]
    assert why(runs, [], "cpu") == "rank 2 on n1 takes 31 % more CPU time than the others"
    assert why(runs, [], "gpu") == "", "their CPU seconds say nothing of a GPU"


def speedup_session(level: float, share: float | None) -> Any:
    made = session(around(level), parent=around(100 / 7))
    return replace(made, scaling=None if share is None else stored(share))


def now_measured(level: float, runs: Sequence[RunSummary], **fields: Any) -> Measurement:
    made = measurement(around(level), parent=around(fields.pop("alone", 100 / 7)), **fields)
    told = tuple(
        replace(one, scaling=other.scaling) for one, other in zip(made.runs, runs, strict=True)
    )
    return replace(made, runs=told)


@pytest.mark.parametrize(("share", "was"), [(0.23, ", was 23 %"), (None, "")])
def test_the_sentence_of_a_speedup_that_fell_says_why(share: float | None, was: str) -> None:
    before = baseline(
        *(speedup_session(level, share) for level in (99.5, 99.8, 100, 100.2, 100.5))
    )
    gpu = case("1n8g")
    alone = judge(gpu, now_measured(96, five(0.41), alone=114 / 7), before, RULE)
    assert alone.verdict is Verdict.REGRESSED
    assert alone.text.startswith("speedup fell by 15.8 %")
    assert f": all-reduce 41 % of the step{was}; find what makes" in alone.text
    slower = judge(gpu, now_measured(80, five(0.41)), before, RULE)
    assert slower.verdict is Verdict.REGRESSED
    assert slower.reason.startswith("20.0 % slower")
    assert slower.details[0].endswith(f": all-reduce 41 % of the step{was}")
    passed = judge(gpu, now_measured(100, five(0.41)), before, RULE)
    assert passed.verdict is Verdict.PASSED
    assert "all-reduce" not in passed.text


def test_links_alone_that_became_slower_fail_the_speedup_and_excuse_nothing() -> None:
    gpu = case("1n8g")
    canary = {"matmul_gflop_per_s": 50.0, "all_reduce_gb_per_s": 10.0}
    sessions = [replace(speedup_session(x, 0.23), canary=canary) for x in (99.5, 100, 100.5)]
    before = baseline(*sessions)
    capped = canary | {"all_reduce_gb_per_s": 1.0}
    judged = judge(gpu, now_measured(40, five(0.7), canary=capped), before, RULE)
    assert judged.verdict is Verdict.REGRESSED
    assert judged.metrics["speedup"].verdict is Verdict.REGRESSED
    assert not judged.throughput.is_judged
    assert "speedup fell by 60." in judged.text
    assert "all-reduce 70 % of the step, was 23 %" in judged.text
    assert "the canary's all-reduce itself is 90.0 % slower" in judged.text
    # A whole machine that became slower stays no regression.
    slow = {"matmul_gflop_per_s": 5.0, "all_reduce_gb_per_s": 1.0}
    judged = judge(gpu, now_measured(40, five(0.7), canary=slow), before, RULE)
    assert judged.verdict is Verdict.INCOMPARABLE


def test_pairs_say_it_too() -> None:
    gpu = case("1n8g")
    now, before = now_measured(80, five(0.41)), now_measured(100, five(0.23))
    judged = judge_pairs(gpu, now, before, RULE)
    assert judged.verdict is Verdict.REGRESSED
    assert judged.text.endswith("; all-reduce 41 % of the step, was 23 %")
    assert "all-reduce" not in judge_pairs(gpu, before, before, RULE).text
    assert stored_scaling(before.runs, "gpu") == stored(0.23, skew=pytest.approx(0.005, abs=0.005))
