"""The benchmark of histories works, with fewer outcomes; its times are for people."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlalchemy", reason="the extra history is not installed (tox env history)")

import history_speed
from pytest_dlperf.history.address import Address


def test_the_benchmark_stores_and_reads_ten_thousand_outcomes(address: Address):
    assert history_speed.write(address, 10_000) == 10_000
    assert history_speed.read_series(address, "bench000-torch-amp-bs16-1n8g") == 50
    assert history_speed.read_cases(address) == history_speed.CASES
