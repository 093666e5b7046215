"""Error rates of pairs, all looks included: seeded simulation."""

from __future__ import annotations

import random

import pytest
from scipy.stats import binom

from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge import more_runs
from pytest_dlperf.judge.verdict import judge_pairs
from tests.helpers.judge_builders import case, measurement

pytestmark = pytest.mark.once

TRIES = 600
TOLERANCE = 0.03


def verdicts(sd: float, slower: float, rule: Rule, *, max_runs: int = 10) -> list[tuple[str, int]]:
    """Return verdicts on pairs that vary by ``sd``, and the pairs that each of them took."""
    noise, subject = random.Random(f"{sd} {slower}"), case(protocol=Protocol(max_runs=max_runs))

    def rates(level: float, count: int) -> list[float]:
        return [level * (1 + noise.gauss(0, sd / 2**0.5)) for _ in range(count)]

    found = []
    for _ in range(TRIES):
        now: list[float] = []
        before: list[float] = []
        judged = None
        while more := more_runs(subject, judged, len(now), in_pairs=True):
            now, before = now + rates(100 * (1 - slower), more), before + rates(100, more)
            judged = judge_pairs(subject, measurement(now), measurement(before), rule)
        assert judged is not None
        found.append((str(judged.verdict), len(now)))
    return found


def share(found: list[tuple[str, int]], verdict: Verdict) -> float:
    return sum(name == verdict for name, _ in found) / len(found)


def at_most(rate: float) -> float:
    """The share that a true rate stays below in 999 of 1000 simulations."""
    return float(binom.ppf(0.999, TRIES, rate)) / TRIES


@pytest.mark.parametrize("sd", [0.013, pytest.param(0.023, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("max_runs", [10, pytest.param(20, marks=pytest.mark.nightly)])
def test_a_case_slower_than_the_tolerance_is_rarely_passed(sd: float, max_runs: int) -> None:
    found = verdicts(sd, TOLERANCE, Rule(tolerance=TOLERANCE), max_runs=max_runs)
    assert share(found, Verdict.PASSED) <= at_most(0.05)


def test_false_alarms_of_a_case_that_is_slower_by_the_min_effect() -> None:
    rule = Rule(tolerance=0.001)
    found = verdicts(0.023, rule.min_effect, rule)
    assert 0 < share(found, Verdict.REGRESSED) <= at_most(rule.alpha)


def test_a_slowdown_is_found_at_the_look_between_the_protocols_pairs_and_the_most() -> None:
    found = verdicts(0.013, 0.03, Rule(family=2, tolerance=0.03))
    assert share(found, Verdict.REGRESSED) >= 0.9
    ended = [count for _, count in found]
    assert {5, 7, 10} <= set(ended)
    assert sum(count <= 7 for count in ended) > TRIES / 4
