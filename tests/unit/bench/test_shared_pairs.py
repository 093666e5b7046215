"""Pairs that others disturbed."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.interleaved import _is_shared


def run(others: float | None, disturbed: str = "others used the machine") -> RunSummary:
    return RunSummary(
        throughput=100.0,
        estimates={},
        step_seconds=(),
        ranks=(),
        peak_memory_bytes=None,
        time_to_first_step_s=None,
        canary={},
        others_cpu_share=others,
        disturbed=disturbed,
    )


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (run(0.50), run(0.55), True),
        (run(0.50), run(0.65), False),
        (run(0.50), run(0.52, disturbed=""), False),
        (run(None), run(0.5), False),
    ],
)
def test_others_that_slowed_both_runs_alike_are_no_difference_of_theirs(
    one: RunSummary, other: RunSummary, shared: bool
) -> None:
    assert _is_shared(one, other) is shared
    assert _is_shared(other, one) is shared
