"""Pairs that others disturbed."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.run import MeasuredRun, RankSummary, RunSummary
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.flow.ab import BEFORE, NOW, _is_shared, _judged_as_pair


def run(
    others: float | None,
    disturbed: str = "others used the machine",
    *,
    alone: bool = True,
    nodes: tuple[str, ...] = ("here", "here"),
) -> RunSummary:
    return RunSummary(
        throughput=100.0,
        estimates={},
        step_seconds=(),
        ranks=tuple(
            RankSummary(
                rank=rank,
                node=node,
                seconds=1.0,
                cpu_seconds=1.0,
                peak_memory_bytes=None,
                loss_first=None,
                loss_last=None,
            )
            for rank, node in enumerate(nodes)
        ),
        peak_memory_bytes=None,
        time_to_first_step_s=None,
        canary={},
        others_cpu_share=others,
        disturbed=disturbed,
        others_cpu_alone=bool(disturbed) and alone,
    )


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (run(0.50), run(0.54), True),
        (run(0.50), run(0.65), False),
        (run(0.50), run(0.52, disturbed=""), False),
        (run(None), run(0.5), False),
        # A tenth of the machine is left to one, a twentieth to the other: half as much.
        (run(0.90), run(0.95), False),
        (run(0.07), run(0.16), False),
        (run(1.0), run(1.0), False),
    ],
)
def test_others_that_slowed_both_runs_alike_are_no_difference_of_theirs(
    one: RunSummary, other: RunSummary, shared: bool
) -> None:
    assert _is_shared(one, other) is shared
    assert _is_shared(other, one) is shared


@pytest.mark.parametrize(
    "other",
    [
        run(0.01, "GPU 0 was throttled by hardware slowdown in 80% of the samples", alone=False),
        run(
            0.07,
            "the hypervisor gave 4.0 CPU s of host a (7% of it) to other guests",
            alone=False,
        ),
        run(0.07, nodes=("here", "there")),
    ],
)
def test_nothing_but_others_use_of_the_cpus_of_one_node_is_shared(other: RunSummary) -> None:
    assert not _is_shared(run(0.07), other)
    assert not _is_shared(other, other)


def as_pair(now: RunSummary, before: RunSummary) -> list[str]:
    """Return why either run of a pair does not count, as it is reported."""
    pair = {NOW: MeasuredRun(now, RunFacts()), BEFORE: MeasuredRun(before, RunFacts())}
    found = _judged_as_pair(pair)
    return [found[side].summary.disturbed for side in (NOW, BEFORE)]


def test_both_runs_of_a_pair_count_or_neither() -> None:
    assert as_pair(run(0.50), run(0.54)) == ["", ""]
    busy = "others used the machine"
    assert as_pair(run(0.50), run(0.0, "")) == [busy, f"the other run of its pair: {busy}"]
    assert as_pair(run(0.0, ""), run(0.0, "")) == ["", ""]
