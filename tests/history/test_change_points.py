"""Where a series changed: what Otava is relied on for, and what is made of it."""

from __future__ import annotations

import random

import pytest

from pytest_dlperf.store.history.address import Address
from pytest_dlperf.store.history.append import append
from pytest_dlperf.store.history.changes import changes_of, split_range, with_causes
from pytest_dlperf.store.history.database import reading
from pytest_dlperf.store.history.query import series_of
from tests.helpers.history_builders import commit, days, outcome, with_canary

pytest.importorskip("otava", reason="Apache Otava is not installed (tox env outputs)")

from pytest_dlperf.store.history.changes import P_MAX, change_points


def noisy(*levels: tuple[int, float], seed: int = 1) -> list[float]:
    noise = random.Random(seed)
    return [level * (1 + noise.gauss(0, 0.01)) for count, level in levels for _ in range(count)]


def test_the_contract_with_otava():
    """Indices are of the first point of the new level; p is below the bound that was given."""
    values = noisy((40, 1000.0), (30, 960.0), (20, 1060.0))
    first, second = change_points(values)
    assert (first.index, second.index) == (40, 70)
    assert max(first.p, second.p) < P_MAX
    assert change_points(values, share_min=0.2) == ()


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_short_series_has_no_change(count: int):
    assert change_points([1000.0, 500.0, 400.0][:count]) == ()


def test_noise_alone_rarely_has_a_change():
    found = sum(bool(change_points(noisy((40, 1000.0), seed=seed))) for seed in range(200))
    assert found <= 6


@pytest.mark.parametrize(("after", "share"), [(30, 0.04), (5, 0.04), (30, 0.02)])
def test_the_range_holds_the_true_split(after: int, share: float):
    held = 0
    for seed in range(200):
        first, last = split_range(noisy((30, 1000.0), (after, 1000 * (1 - share)), seed=seed))
        held += first <= 30 <= last
    assert held >= 0.95 * 200


def test_levels_without_noise_have_one_split():
    assert split_range([5.0, 5.0, 4.0, 4.0]) == (2, 2)
    assert split_range([5.0, 4.0]) == (1, 1)


def test_a_planted_change_thirty_sessions_back_is_found_with_its_commits(address: Address):
    append(address, "s", days(90, changed_on=60))
    append(address, "t", days(90, node="node2"))
    with reading(address) as connection:
        slowed, steady = series_of(connection)
        [change] = changes_of(slowed)
        assert changes_of(steady) == ()
        change = with_causes(connection, slowed, change)
    assert change.change == pytest.approx(-0.04, abs=0.006)
    assert change.points_after == 30
    assert (change.last_before.commit, change.first_after.commit) == (commit(59), commit(60))
    assert change.p < P_MAX
    assert (change.software, change.canary) == ((), {})


def test_outcomes_not_used_for_levels_move_no_change(address: Address):
    """Injected and modified outcomes look like a change, and are none."""
    outcomes = list(days(60))
    outcomes += [outcome(60 + day, rates=(900.0,), inject=0.1) for day in range(10)]
    outcomes += [outcome(70 + day, rates=(900.0,), dirty=True) for day in range(10)]
    append(address, "s", outcomes)
    with reading(address) as connection:
        [series] = series_of(connection)
        [counted] = series_of(connection, dirty=True)
    assert changes_of(series) == ()
    assert len(changes_of(counted)) == 1


def test_software_and_canary_that_changed_with_it_are_named(address: Address):
    old = [with_canary(one, 100.0) for one in days(30)]
    new = [
        with_canary(one, 95.0) for one in days(60, changed_on=30, software={"driver": "460.1"})
    ][30:]
    append(address, "s", [*old, *new])
    with reading(address) as connection:
        [series] = series_of(connection)
        [change] = changes_of(series)
        change = with_causes(connection, series, change)
    assert change.software == ("driver: 450.80.02 -> 460.1",)
    assert change.canary == {"matmul_gflop_per_s": pytest.approx(-0.05)}
