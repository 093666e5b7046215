"""Interleaved pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pytest_dlperf.core.verdict import Prior
from pytest_dlperf.judge.stats.priors import PAIRS
from tests.helpers.judge_builders import paired_contrast

BELIEVED = Prior(run_sd=0.01, session_sd=0.006)


def pairs(seed: int, count: int, sd: float = 0.01, shift: float = 0.0):
    rng = np.random.default_rng(seed)
    drift = rng.normal(0, 0.2, count)  # of the machine: in both runs of a pair
    before = drift + rng.normal(0, sd, count)
    return list(drift + rng.normal(shift, sd, count)), list(before)


def test_what_the_machine_does_slowly_is_in_both_arms() -> None:
    now, before = pairs(1, 10, shift=-0.05)
    found = paired_contrast(now, before, BELIEVED)
    assert found.shift == pytest.approx(-0.05, abs=0.015)
    assert found.se < 0.01


def test_a_certificate_holds_by_the_t_test_of_the_pairs_as_well() -> None:
    now, before = pairs(2, 8, shift=-0.01)
    nothing = Prior(run_sd=1e-9, session_sd=1e-9)
    theirs = stats.ttest_rel(now, before, alternative="greater")
    found = paired_contrast(now, before, nothing).own_certificate
    assert found is not None
    shift = float(np.mean(np.array(now) - before))
    assert found.tail(shift) == pytest.approx(float(theirs.pvalue), rel=1e-6)


def test_a_run_that_others_slowed_is_trimmed_as_by_yuen() -> None:
    now, before = pairs(3, 10)
    now[4] -= math.log(2)
    found = paired_contrast(now, before, Prior(run_sd=1e-9, session_sd=1))
    differences = np.array(now) - np.array(before)
    theirs = stats.ttest_1samp(differences, 0.0, alternative="less")
    trimmed = stats.trim_mean(differences, 0.2)
    winsorised = np.asarray(stats.mstats.winsorize(differences, limits=0.2))
    se = math.sqrt(np.var(winsorised, ddof=1) * 9 / (6 * 5))
    assert found.shift == pytest.approx(float(trimmed))
    assert found.own_certificate is not None
    assert found.own_certificate.se == pytest.approx(se, rel=1e-6)
    assert found.se < abs(float(np.mean(differences) / theirs.statistic))


def test_nothing_is_certified_by_belief_alone() -> None:
    now, before = pairs(4, 1, sd=0.01)
    found = paired_contrast(now, before, BELIEVED)
    assert found.certified(0.05) == -math.inf
    assert found.lower(0.05) > -math.inf


@pytest.mark.parametrize("sd", [0.005, 0.03])
def test_a_certificate_is_rarely_wrong_whatever_the_noise(sd: float) -> None:
    tolerance, wrong, tries = 0.02, 0, 600
    for seed in range(tries):
        now, before = pairs(seed, 5, sd=sd, shift=math.log1p(-tolerance))
        bound = paired_contrast(now, before, BELIEVED).certified(0.05)
        wrong += bound > math.log1p(-tolerance)
    assert wrong / tries <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / tries)


@pytest.mark.parametrize("sd", [0.013, 0.02, 0.045])
def test_the_built_in_belief_of_cpus_leaves_the_say_to_the_pairs(sd: float) -> None:
    """Noise of recorded pairs on CPUs: quiet ones are certified within 3 % by six of them."""
    tries, tolerance = 400, -math.log1p(-0.03)
    certified = {"unchanged": 0, "slower than the tolerance": 0}
    alarms = 0
    for seed in range(tries):
        for truth, shift in zip(certified, (0.0, -tolerance), strict=True):
            differences = list(np.random.default_rng(seed).normal(shift, sd, 6))
            found = paired_contrast(differences, [0.0] * 6, PAIRS["cpu"])
            certified[truth] += found.certified(0.05 / 3) > -tolerance
            alarms += not shift and found.shift + found.alarm_reach(0.05) < 0
    margin = 3 * math.sqrt(0.05 * 0.95 / tries)
    assert certified["slower than the tolerance"] / tries <= 0.05 / 3 + margin
    assert alarms / tries <= 0.05 + margin
    if sd == 0.013:
        assert certified["unchanged"] / tries > 0.85
