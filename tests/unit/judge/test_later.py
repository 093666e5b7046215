"""What later sessions are said to detect, against what simulated later sessions do detect."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from pytest_dlperf.core.verdict import TOLERANCE, LaterSession, Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.later import later_session
from tests.helpers.judge_builders import (
    Noise,
    around,
    baseline,
    case,
    fixed_runs,
    measurement,
    session,
)

ALONE = Rule(family=1)
FIVE = case(protocol=fixed_runs(5))


def later(stored, subject=FIVE, rule=ALONE) -> LaterSession:
    found = later_session(subject, stored, rule, kept_sessions=10)
    assert found is not None
    return found


def count_of(found: LaterSession, what: str) -> int | None:
    return next((one.count for one in found.remedies if one.what == what), None)


def sees_of(found: LaterSession, what: str) -> float:
    (sees,) = (one.sees for one in found.remedies if one.what == what)
    return sees


@pytest.mark.parametrize(
    ("session_sd", "run_sd", "sessions"),
    [(0.01, 0.005, 1), (0.03, 0.03, 2), (0.02, 0.08, 1), (0.06, 0.04, 5)],
)
def test_later_sessions_detect_what_is_said(session_sd, run_sd, sessions) -> None:
    ratios = []
    for seed in range(15):
        noise = Noise(seed, session_sd=session_sd, run_sd=run_sd)
        stored = noise.baseline(sessions)
        now = measurement(noise.rates(noise.level(), 5))
        sees = judge(FIVE, now, stored, ALONE).throughput.sees
        if sees is not None:
            ratios.append(sees / later(stored).sees)
    assert len(ratios) > 10
    assert statistics.median(ratios) == pytest.approx(1, abs=0.05)


def test_a_slowdown_well_beyond_is_regressed_and_one_well_within_is_not() -> None:
    stored = baseline(*(session(around(level, 0.02)) for level in (97, 100, 102, 99)))
    sees = later(stored).sees
    for times, is_found in ((1.3, True), (0.7, False)):
        now = measurement(around(99.5 * (1 - times * sees), 0.02))
        found = judge(FIVE, now, stored, ALONE).verdict is Verdict.REGRESSED
        assert found is is_found


@pytest.mark.parametrize(("session_sd", "run_sd", "sessions"), [(0.06, 0.04, 3), (0.02, 0.08, 2)])
def test_more_sessions_help_as_much_as_is_said(session_sd, run_sd, sessions) -> None:
    ratios = []
    for seed in range(30):
        noise = Noise(seed, session_sd=session_sd, run_sd=run_sd)
        stored = noise.baseline(sessions)
        found = later(stored)
        count = count_of(found, "sessions")
        if count is None:
            continue
        more = replace(stored, sessions=(*stored.sessions, *noise.baseline(count).sessions))
        now = measurement(noise.rates(noise.level(), 5))
        sees = judge(FIVE, now, more, ALONE).throughput.sees
        if sees is not None:
            ratios.append(sees / sees_of(found, "sessions"))
    assert len(ratios) > 5
    assert 0.75 < statistics.median(ratios) < 1.33


def test_one_noisy_session_needs_another_and_says_that_it_is_one() -> None:
    found = later(baseline(session(around(100, 0.08))))
    assert found.provisional
    assert found.sees > 0.25
    assert found.sees / 2 > sees_of(found, "sessions") > found.wanted
    # Of the nine that have room, those that help little are not asked for
    assert count_of(found, "sessions") == 4


def test_runs_help_where_runs_vary_and_sessions_do_not() -> None:
    steady = [session(around(100, 0.09)) for _ in range(6)]
    assert count_of(later(baseline(*steady)), "runs") is not None
    moving = [session(around(level, 0.002)) for level in (80, 100, 120, 90, 110, 100)]
    found = later(baseline(*moving))
    assert count_of(found, "runs") is None
    # Both arms of a pair are of one session
    assert sees_of(found, "pairs") < 0.05 < found.sees


def test_nothing_is_offered_for_what_is_good_enough_or_full() -> None:
    quiet = later(baseline(*(session(around(100, 0.002)) for _ in range(5))))
    assert (quiet.sees < quiet.wanted, quiet.remedies) == (True, ())
    moving = [session(around(100 + 20 * (-1) ** i, 0.002)) for i in range(10)]
    assert count_of(later(baseline(*moving)), "sessions") is None


def test_remedies_are_for_the_tolerance_that_was_given() -> None:
    stored = baseline(*(session(around(100, 0.02)) for _ in range(3)))
    assert later(stored).wanted == TOLERANCE
    strict = later(stored, rule=replace(ALONE, tolerance=0.01))
    assert strict.wanted == 0.01
    assert strict.remedies
    assert later(stored, subject=replace(FIVE, tolerance=0.3)).wanted == 0.3


def test_sessions_that_were_set_aside_promise_nothing() -> None:
    aside = replace(session([100.0] * 5), reason="observed: regressed")
    assert later_session(FIVE, baseline(aside), ALONE, kept_sessions=10) is None
