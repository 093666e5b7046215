"""The benchmark of histories works, with fewer outcomes; its times are for people."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlalchemy", reason="the extra history is not installed (tox env outputs)")

import history_speed
from pytest_dlperf.store.history.address import Address


@pytest.mark.nightly  # it says how long a history takes, and decides nothing
@pytest.mark.parametrize(
    "outcomes",
    # As many as the pool that they are drawn from, and far more; that takes most of a minute.
    [2 * history_speed.CASES, 10_000],
)
def test_the_benchmark_stores_and_reads_outcomes(address: Address, outcomes: int):
    assert history_speed.write(address, outcomes) == outcomes
    series = history_speed.read_series(address, "bench000-torch-amp-bs16-1n8g")
    assert series == outcomes // history_speed.CASES
    assert history_speed.read_cases(address) == history_speed.CASES
