"""Many small steps down, each let pass, are caught against the anchor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.verdict import Prior, Rule, Verdict
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import around, baseline, case, measurement, session

KNOWN = Prior(run_sd=0.003, session_sd=0.003, run_df=30, session_df=30, learnt=True)
RULE = Rule(family=24, tolerance=0.03, prior=KNOWN)
SUBJECT = case("1n2g")


def test_small_steps_add_up() -> None:
    level, verdicts = 100.0, []
    stored = [session(around(level))]
    for _ in range(30):
        level *= 0.997
        known = baseline(*stored[-10:], anchor=stored[0])
        judged = judge(SUBJECT, measurement(around(level, runs=10)), known, RULE)
        verdicts.append(judged.verdict)
        if judged.verdict is Verdict.REGRESSED:
            break
        stored.append(session(around(level)))
    assert verdicts[0] is Verdict.PASSED
    assert verdicts[-1] is Verdict.REGRESSED
    assert "than the anchor" in judged.reason
    assert judged.metrics["anchor"].before == pytest.approx(100.0)
    assert judged.throughput.verdict is Verdict.PASSED


def test_without_an_anchor_nobody_sees_them() -> None:
    stored = [session(around(100 * 0.988**step)) for step in range(10)]
    judged = judge(SUBJECT, measurement(around(100 * 0.988**9.5)), baseline(*stored), RULE)
    assert "anchor" not in judged.metrics


def test_one_that_stays_within_the_tolerance_may_go() -> None:
    stored = [session(around(100.0)), *(session(around(98.5)) for _ in range(4))]
    known = baseline(*stored, anchor=stored[0])
    judged = judge(SUBJECT, measurement(around(98.0, runs=10)), known, RULE)
    assert judged.verdict is Verdict.PASSED
    assert judged.metrics["anchor"].change == pytest.approx(-0.02, abs=1e-4)


def test_the_only_stored_session_is_no_second_comparison() -> None:
    only = session(around(100.0))
    judged = judge(SUBJECT, measurement(around(100.0)), baseline(only, anchor=only), RULE)
    assert "anchor" not in judged.metrics


def test_unchanged_cases_are_not_alarmed_by_it() -> None:
    sessions = [session(around(level)) for level in (101.0, 99.5, 100.2, 99.8, 100.1)]
    known = baseline(*sessions, anchor=replace(sessions[0], time="2020-01-01T00:00:00Z"))
    for now in (99.0, 100.0, 101.0):
        assert (
            judge(SUBJECT, measurement(around(now)), known, RULE).verdict is not Verdict.REGRESSED
        )


def test_what_has_drifted_does_not_widen_the_tolerance_that_bounds_it() -> None:
    rule = replace(RULE, tolerance=None)
    steps = [session(around(100 * 0.99**step)) for step in range(8)]
    now = measurement(around(100 * 0.99**8, runs=10))
    drifted = judge(SUBJECT, now, baseline(*steps, anchor=steps[0]), rule)
    first = baseline(steps[0], anchor=replace(steps[0], time="2020-01-01T00:00:00Z"))
    alone = judge(SUBJECT, now, first, rule)
    assert drifted.throughput.tolerance > alone.metrics["anchor"].tolerance  # type: ignore[operator]
    assert drifted.metrics["anchor"].tolerance == alone.metrics["anchor"].tolerance
    assert drifted.verdict is Verdict.REGRESSED


def test_a_case_that_became_faster_is_not_failed_for_its_anchor() -> None:
    anchor = session(around(115.0))
    stored = [session(around(100.0)) for _ in range(5)]
    judged = judge(
        SUBJECT, measurement(around(105.0, runs=10)), baseline(*stored, anchor=anchor), RULE
    )
    assert judged.metrics["anchor"].verdict is Verdict.REGRESSED
    assert judged.verdict is Verdict.IMPROVED
    assert "it is still 8.7 % slower than the anchor" in judged.reason
