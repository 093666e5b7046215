"""Which stored profiles a rank of now is compared with."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.flow.explain import profiles_of_stage
from tests.helpers.judge_builders import case

UNNUMBERED = ProfileRecord()
STORED = [ProfileRecord(rank=rank) for rank in range(4)]


@pytest.mark.parametrize(
    ("parallel", "rank", "expected"),
    [
        ("ddp", 2, [*STORED, UNNUMBERED]),
        ("pp2", 2, [STORED[0], STORED[2]]),
        ("tp2-pp2", 1, [STORED[0], STORED[1]]),
    ],
)
def test_stages_of_a_pipeline_are_not_compared_with_each_other(
    parallel: str, rank: int, expected: list[ProfileRecord]
):
    trained = case("1n4c", parallel=parallel)
    assert profiles_of_stage(trained, rank, [*STORED, UNNUMBERED]) == expected
