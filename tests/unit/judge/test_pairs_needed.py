"""How many pairs would decide: that many do, four times in five."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pytest_dlperf.core.verdict import TOLERANCE, Prior, Rule, Verdict
from pytest_dlperf.judge.compare import verdict_of
from pytest_dlperf.judge.evidence.numbers import Numbers
from pytest_dlperf.judge.screen import ONE_LOOK, Spending
from pytest_dlperf.judge.stats.paired import pairs_of
from pytest_dlperf.judge.stats.priors import PAIRS
from pytest_dlperf.judge.stats.runs_needed import pairs_needed
from pytest_dlperf.judge.verdict import judge_number_pairs
from tests.helpers.judge_builders import paired_contrast

LAST_OF_THREE = Spending(certify=1 / 3, alarm=0.8)
QUIET = Prior(run_sd=0.01, session_sd=0.006)


def exactly(count: int, shift: float, sd: float) -> list[float]:
    """Return differences whose mean and sample standard deviation are these."""
    values = np.arange(count) - (count - 1) / 2
    return [float(x) for x in shift + sd * values / np.std(values, ddof=1)]


@pytest.mark.parametrize(
    ("sd", "shift", "prior", "family", "spent"),
    [
        (0.05, 0.0, PAIRS["cpu"], 4, LAST_OF_THREE),
        (0.05, 0.0, PAIRS["gpu"], 1, ONE_LOOK),
        (0.03, 0.0, QUIET, 4, LAST_OF_THREE),
        (0.014, -0.015, QUIET, 96, LAST_OF_THREE),
        (0.02, -0.04, PAIRS["cpu"], 96, LAST_OF_THREE),
        (0.03, 0.0, PAIRS["gpu"], 96, LAST_OF_THREE),
    ],
)
def test_that_many_pairs_decide_four_times_in_five(
    sd: float, shift: float, prior: Prior, family: int, spent: Spending
) -> None:
    rule, tolerance = Rule(family=family), 0.03
    seen = pairs_of(exactly(4, shift, sd), [0.0] * 4)
    needed = pairs_needed(seen, prior, tolerance, rule, spent)
    assert needed is not None
    rng = np.random.default_rng(1)
    tries = 600
    decided = 0
    for _ in range(tries):
        found = paired_contrast(list(rng.normal(shift, sd, needed)), [0.0] * needed, prior)
        decided += verdict_of(found, tolerance, rule, spent) is not Verdict.INCONCLUSIVE
    assert 0.73 <= decided / tries <= 0.9, needed


def test_more_noise_and_a_change_between_the_margins_take_more_pairs() -> None:
    def needed(sd: float, shift: float) -> int | None:
        seen = pairs_of(exactly(4, shift, sd), [0.0] * 4)
        return pairs_needed(seen, PAIRS["cpu"], 0.03, Rule(), ONE_LOOK)

    quiet, noisy, between = needed(0.05, 0.0), needed(0.1, 0.0), needed(0.1, -0.015)
    assert quiet is not None
    assert noisy is not None
    assert between is not None
    assert quiet < noisy < between
    assert needed(0.5, math.log(0.97)) is None


def test_with_more_pairs_than_are_searched_no_number_is_named() -> None:
    seen = replace(pairs_of(exactly(4, 0.0, 0.05), [0.0] * 4), count=1200)
    assert pairs_needed(seen, PAIRS["cpu"], 0.03, Rule(), ONE_LOOK) is None


def test_plain_numbers_say_the_same() -> None:
    rates = tuple(100 * math.exp(value) for value in exactly(4, 0.0, 0.05))
    before = Numbers(name="a", unit="", sessions=((100.0,) * 4,))
    now = Numbers(name="b", unit="", sessions=(rates,))
    judged = judge_number_pairs(before, now, Rule())
    needed = judged.throughput.runs_needed
    assert needed == pairs_needed(
        pairs_of(exactly(4, 0.0, 0.05), [0.0] * 4), PAIRS["gpu"], TOLERANCE, Rule(), ONE_LOOK
    )
    assert f"about {needed} runs in all would decide it" in judged.text
