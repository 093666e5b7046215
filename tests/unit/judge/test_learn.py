"""The noise of a machine class, learnt from what is stored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.verdict import LearntNoise, Prior
from pytest_dlperf.judge.stats.learn import learn
from tests.helpers.judge_builders import session

BUILT_IN = Prior(run_sd=0.008, session_sd=0.006)


def cases(
    seed: int, *, count: int, run_sd: list[float], session_sd: float, sessions: int = 5
) -> list[list[Session]]:
    rng = np.random.default_rng(seed)
    return [
        [
            session([float(x) for x in 100 * np.exp(shift + rng.normal(0, sd, 5))])
            for shift in rng.normal(0, session_sd, sessions)
        ]
        for sd in (run_sd * count)[:count]
    ]


def learnt(levels: list[list[Session]]) -> LearntNoise:
    found = learn(levels, BUILT_IN)
    assert found is not None
    return found


@pytest.mark.parametrize(("run_sd", "session_sd"), [(0.005, 0.002), (0.02, 0.015), (0.01, 0.03)])
def test_noise_is_learnt_from_many_cases(run_sd: float, session_sd: float) -> None:
    found = learnt(cases(1, count=24, run_sd=[run_sd], session_sd=session_sd))
    assert found.run_sd == pytest.approx(run_sd, rel=0.15)
    assert found.session_sd == pytest.approx(session_sd, rel=0.35)
    assert found.run_df == 30
    assert (found.cases, found.sessions) == (24, 120)
    assert found.prior.learnt


def test_where_cases_differ_a_case_goes_by_itself_the_more() -> None:
    alike = learnt(cases(2, count=24, run_sd=[0.01], session_sd=0.005))
    differing = learnt(cases(2, count=24, run_sd=[0.002, 0.05], session_sd=0.005))
    assert differing.run_df < alike.run_df / 2


def test_little_is_learnt_from_one_case() -> None:
    found = learnt(cases(3, count=1, run_sd=[0.002], session_sd=0.0, sessions=2))
    assert 0.002 < found.run_sd < BUILT_IN.run_sd
    assert found.session_sd == pytest.approx(BUILT_IN.session_sd, rel=0.3)
    assert not found.prior.learnt


def test_nothing_is_learnt_from_single_runs() -> None:
    assert learn([[session([100.0]), session([101.0])], []], BUILT_IN) is None


def test_runs_that_are_all_alike_leave_a_floor() -> None:
    found = learnt([[session([100.0] * 5)] * 10] * 10)
    assert found.run_sd >= 0.001
    assert found.session_sd >= 0.001


def learnt_sd(levels: list[list[Session]], truth: float) -> float:
    found = learn(levels, Prior(run_sd=0.004, session_sd=truth))
    assert found is not None
    return found.session_sd


#: Cases and their sessions: twelve in all, or many.
LAYOUTS = [(6, 2), (4, 3), (3, 4), (2, 6), (24, 3), (24, 10)]


@pytest.mark.parametrize(("count", "sessions"), LAYOUTS)
def test_the_spread_of_normal_sessions_is_learnt_as_it_is(count: int, sessions: int) -> None:
    found = [
        learnt_sd(
            cases(seed, count=count, run_sd=[0.004], session_sd=0.01, sessions=sessions), 0.01
        )
        for seed in range(60)
    ]
    assert np.sqrt(np.mean(np.square(found))) == pytest.approx(0.01, rel=0.1)


def slowed(levels: list[list[Session]], share: float, last: int) -> list[list[Session]]:
    """The same with the last sessions of the first case slower."""
    first = [
        replace(one, runs=tuple(rate * (1 - share) for rate in one.runs))
        if i >= len(levels[0]) - last
        else one
        for i, one in enumerate(levels[0])
    ]
    return [first, *levels[1:]]


@pytest.mark.parametrize(("count", "sessions"), [(6, 2), (4, 3), (3, 4), (2, 6)])
def test_one_odd_session_of_twelve_does_not_double_it(count: int, sessions: int) -> None:
    found = []
    for seed in range(60):
        levels = cases(seed, count=count, run_sd=[0.004], session_sd=0.01, sessions=sessions)
        found.append(learnt_sd(slowed(levels, 0.15, last=1), 0.01))
    assert np.sqrt(np.mean(np.square(found))) < 0.02
    assert np.mean(np.array(found) > 0.02) < 0.2


def test_a_step_that_nobody_reported_is_hardly_taken_for_noise() -> None:
    levels = cases(5, count=24, run_sd=[0.004], session_sd=0.01, sessions=10)
    assert learnt_sd(slowed(levels, 0.15, last=3), 0.01) < 0.012


def test_noise_is_still_learnt_from_cases_that_vary_more_than_others() -> None:
    quiet = cases(6, count=12, run_sd=[0.004], session_sd=0.01, sessions=10)
    loud = cases(7, count=12, run_sd=[0.004], session_sd=0.03, sessions=10)
    assert learnt_sd(quiet + loud, 0.01) == pytest.approx(np.sqrt(5) * 0.01, rel=0.1)


def test_no_noise_is_learnt_from_what_observe_mode_set_aside() -> None:
    levels = cases(8, count=24, run_sd=[0.004], session_sd=0.01, sessions=6)
    slower = slowed(levels, 0.1, last=3)
    aside = [
        replace(one, reason="observed: regressed") if i > 2 else one
        for i, one in enumerate(slower[0])
    ]
    with_aside = learnt([aside, *slower[1:]])
    assert with_aside == learnt([aside[:3], *slower[1:]])
    assert with_aside.sessions == 24 * 6 - 3


def test_thousands_of_sessions_are_learnt_from_in_little_time() -> None:
    levels = cases(9, count=1, run_sd=[0.004], session_sd=0.01, sessions=10_000)
    assert learnt_sd(levels, 0.01) == pytest.approx(0.01, rel=0.1)


def test_what_nodes_differ_by_is_no_noise_of_days() -> None:
    alike = cases(4, count=8, run_sd=[0.003], session_sd=0.003, sessions=10)
    apart = [
        [
            replace(
                one, node=f"n{i % 2}", runs=tuple(rate * (1 - 0.08 * (i % 2)) for rate in one.runs)
            )
            for i, one in enumerate(sessions)
        ]
        for sessions in alike
    ]
    assert learnt(apart).session_sd == pytest.approx(learnt(alike).session_sd, rel=0.2)
