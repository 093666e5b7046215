"""Many small steps down, each let pass, are suspected, and held to the anchor."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Known
from pytest_dlperf.core.verdict import Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.creep import against_anchor, drift, is_suspected, rule_of_pairs
from pytest_dlperf.judge.two_stages import other_sides
from tests.helpers.judge_builders import around, baseline, case, measurement, session

RULE = Rule(family=24, tolerance=0.05)
SUBJECT = case("1n2g")


def on_day(number: int, level: float) -> Session:
    return replace(
        session(around(level)), time=f"2026-01-{number:02}T00:00:00Z", commit=f"{number}"
    )


def since(anchor: float, *levels: float) -> Baseline:
    """Return a baseline whose anchor is no longer among its sessions."""
    later = [on_day(number, level) for number, level in enumerate(levels, 2)]
    return baseline(*later, anchor=on_day(1, anchor))


def judged(verdict: Verdict) -> Judgement:
    found = Comparison(verdict=verdict, change=0.0, tolerance=0.05)
    return Judgement(verdict=verdict, reason="", throughput=found)


@pytest.mark.parametrize(
    ("levels", "now", "suspected"),
    [
        ((99.8, 99.4, 98.8), 98.4, True),
        ((99.8, 99.6, 99.4), 99.2, False),
        # One odd session, of now or before, is no creep, and hides none
        ((100.0, 100.0, 100.0), 80.0, False),
        ((98.0, 98.0, 98.0), 120.0, True),
        # Two levels tell a step from no creep
        ((90.0,), 90.0, False),
        ((90.0, 90.0), 90.0, True),
    ],
)
def test_levels_below_the_anchor_are_suspected(
    levels: tuple[float, ...], now: float, suspected: bool
) -> None:
    known = since(100.0, *levels)
    assert is_suspected(measurement(around(now)), known, RULE) is suspected


def test_noise_hides_no_creep() -> None:
    """A bound that knew the noise would miss it where sessions differ most."""
    known = since(100.0, 104.0, 93.0, 99.0, 95.0)
    assert is_suspected(measurement(around(97.0)), known, RULE)


def test_what_was_before_the_anchor_was_is_forgotten() -> None:
    sessions = [on_day(number, 110.0 - number) for number in range(1, 10)]
    now = measurement(around(101.0))
    for place, suspected in ((0, True), (5, True), (7, False), (8, False)):
        known = baseline(*sessions, anchor=sessions[place])
        assert is_suspected(now, known, RULE) is suspected
    assert drift(now, baseline(*sessions)) is None


def test_a_suspected_case_is_compared_with_the_code_of_the_anchor() -> None:
    known, now = since(100.0, *[98.0] * 5), measurement(around(98.0))
    passed, open_ = judged(Verdict.PASSED), judged(Verdict.INCONCLUSIVE)
    assert other_sides(SUBJECT, now, passed, known, RULE) == (known.anchor,)
    assert other_sides(SUBJECT, now, open_, known, RULE) == (known.anchor, known.level[-1])
    level = since(98.0, *[98.0] * 5)
    assert other_sides(SUBJECT, now, passed, level, RULE) == ()
    assert other_sides(SUBJECT, now, open_, level, RULE) == (level.level[-1],)


@pytest.mark.parametrize("verdict", [Verdict.REGRESSED, Verdict.IMPROVED])
def test_a_step_that_stored_sessions_see_needs_no_older_code(verdict: Verdict) -> None:
    known, now = since(100.0, *[98.0] * 5), measurement(around(98.0))
    sides = other_sides(SUBJECT, now, judged(verdict), known, RULE)
    assert known.anchor not in sides


def test_a_known_slowdown_is_compared_with_the_last_session() -> None:
    slow = replace(SUBJECT, known=Known(change=-0.08, issue="#1", until="2099-01-01"))
    known, now = since(100.0, *[98.0] * 5), measurement(around(98.0))
    assert other_sides(slow, now, judged(Verdict.INCONCLUSIVE), known, RULE) == (known.level[-1],)
    assert other_sides(slow, now, judged(Verdict.PASSED), known, RULE) == ()


def test_pairs_with_the_anchor_are_to_certify_half_of_the_tolerance() -> None:
    assert rule_of_pairs(RULE) == replace(RULE, tolerance=0.025)


def test_without_pairs_a_creep_is_red_once_it_is_certainly_beyond_the_tolerance() -> None:
    rng = np.random.default_rng(1)
    level, verdicts = 100.0, []
    stored = [on_day(1, level)]
    for number in range(2, 26):
        level *= 0.995 * math.exp(0.003 * rng.standard_normal())
        now = measurement(around(level, runs=10))
        known = baseline(*stored[-10:], anchor=stored[0])
        found = judge(SUBJECT, now, known, RULE)
        verdicts.append(found.verdict)
        if found.verdict is Verdict.REGRESSED:
            break
        stored.append(on_day(number, level))
    assert verdicts[-1] is Verdict.REGRESSED
    assert 80 < level < 93
    assert found.details[0].startswith("the last levels are ")
    assert "than the anchor" in found.reason
    assert found.throughput.verdict is not Verdict.REGRESSED
    # A pair with the anchor's code is to decide it
    assert other_sides(SUBJECT, now, found, known, RULE)[0] == known.anchor


def test_levels_that_vary_leave_the_anchor_for_certain_later() -> None:
    now = measurement(around(90.0))
    steady = against_anchor(now, since(100.0, *[90.0, 90.2] * 4), 0.05, RULE)
    varied = against_anchor(now, since(100.0, *[85.0, 95.0] * 4), 0.05, RULE)
    assert steady is not None
    assert varied is not None
    assert (steady.verdict, varied.verdict) == (Verdict.REGRESSED, Verdict.PASSED)
    assert steady.change == pytest.approx(-0.1)
    assert (steady.before, steady.now) == (100.0, 90.0)


def test_unchanged_levels_do_not_leave_the_anchor() -> None:
    """Families of ten, whose sessions vary by 3 %, for as long as the anchor is the same."""
    rng = np.random.default_rng(2)
    rule = replace(RULE, family=10, alarm_share=0.2 / 3)
    red = 0
    for _ in range(500):
        anchor, *levels, now = 100 * np.exp(0.03 * rng.standard_normal(12))
        found = against_anchor(measurement([now]), since(anchor, *levels), 0.0, rule)
        assert found is not None
        red += found.verdict is Verdict.REGRESSED
    assert red <= 2  # 500 of them at 1/3000


def test_a_case_that_became_faster_is_not_failed_for_its_anchor() -> None:
    known = since(180.0, *[100.0] * 5)
    found = judge(SUBJECT, measurement(around(108.0, runs=10)), known, RULE)
    assert found.metrics["anchor"].verdict is Verdict.REGRESSED
    assert found.verdict is Verdict.IMPROVED
