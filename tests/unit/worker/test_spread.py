"""How the ranks of a group follow each other, in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_dlperf.worker.cost.spread import spread_of


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([3], "1 rank"),
        ([0, 1], "2 ranks, 1 apart"),
        ([0, 8, 16, 24], "4 ranks, 8 apart"),
        ([2, 10, 18, 26], "4 ranks, 8 apart"),
        ([0, 1, 2, 3, 8, 9, 10, 11], "2 x 4 ranks, 8 and 1 apart"),
        ([0, 1, 5], "3 ranks: 0-1, 5"),
        ([0, 1, 2, 3, 7], "5 ranks: 0-3, 7"),
    ],
)
def test_ranks_in_words(ranks: list[int], words: str):
    assert spread_of(ranks) == words


@given(
    counts=st.lists(st.integers(2, 4), min_size=1, max_size=3), first=st.integers(0, 99),
    gap=st.integers(1, 3),
)  # fmt: skip
def test_groups_of_one_mesh_dimension_are_called_alike(counts: list[int], first: int, gap: int):
    """Wherever they begin."""
    ranks, apart = [0], gap
    for count in counts:
        ranks = [block * apart + rank for block in range(count) for rank in ranks]
        apart *= 2 * count
    assert spread_of([first + rank for rank in ranks]) == spread_of(ranks)
    assert ":" not in spread_of(ranks)
