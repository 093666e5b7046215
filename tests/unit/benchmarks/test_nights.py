"""Nights of steps and creeps, through the judge and the rules of what is stored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import nights
from pytest_dlperf.core.verdict import Verdict

pytestmark = pytest.mark.once

GPU = nights.World(device="gpu", run_sd=0.01, session_sd=0.01, pair_sd=0.013, stored=1)
STORED = replace(GPU, stored=10)


@pytest.mark.parametrize("world", [GPU, STORED, replace(GPU, stored=5, pair_sd=0.02)])
def test_a_step_of_5_percent_is_found_on_its_first_night(world: nights.World):
    found = nights.step(world, 0.05, 40, seed=1)
    assert sum(night.verdict is Verdict.REGRESSED for night in found) >= 38
    assert {night.update for night in found if night.verdict is Verdict.REGRESSED} == {"refused"}


@pytest.mark.parametrize("world", [GPU, STORED])
def test_a_creep_is_found_by_3_percent(world: nights.World):
    found = sorted(night or 99 for night in nights.creep(world, 0.005, 20, seed=2))
    assert found[10] <= 6  # 0.5 % each
    assert found[-1] <= 12


def test_unchanged_code_is_not_red_and_costs_few_pairs():
    found = [night for one in nights.unchanged(STORED, 6, seed=3) for night in one]
    assert {night.verdict for night in found} <= {Verdict.PASSED, Verdict.IMPROVED}
    assert 0 < sum(night.with_anchor for night in found) < len(found) / 2
    assert sum(night.pairs for night in found) < 3 * len(found)


def test_a_drift_of_3_percent_does_not_pass_night_after_night():
    """It is certified within the tolerance of 5 %, and less than half of it is asked."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(10):
        case = nights.Nights(STORED, rng)
        for number in range(1, 7):
            case.night(-0.005 * number)
        verdicts = [case.night(-0.03).verdict for _ in range(5)]
        found.append(Verdict.REGRESSED in verdicts)
    assert sum(found) >= 9


def test_without_pairs_a_creep_is_found_late():
    alone = replace(STORED, run_sd=0.005, session_sd=0.005, pair_sd=None)
    found = [night or 99 for night in nights.creep(alone, 0.005, 10, seed=7)]
    assert 12 < sorted(found)[5] < 26
    assert not any(night.pairs for one in nights.unchanged(alone, 1, seed=7) for night in one)


def test_what_is_stored_is_what_a_session_would_store():
    case = nights.Nights(GPU, np.random.default_rng(5))
    for number in range(14):
        case.night(0.0)
        assert case.baseline is not None
        assert len(case.baseline.level) <= min(number + 2, 10)
    assert case.baseline.anchor is not None
    assert case.baseline.anchor.commit == "0000000" or case.baseline.history


def test_equal_seeds_give_equal_nights():
    assert nights.creep(GPU, 0.005, 3, seed=6) == nights.creep(GPU, 0.005, 3, seed=6)
    assert nights.row(GPU, 4, seed=7) == nights.row(GPU, 4, seed=7)
