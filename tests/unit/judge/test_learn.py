"""The noise of a machine class, learnt from what is stored."""

from __future__ import annotations

import numpy as np
import pytest
from judge_builders import session

from pytest_dlperf.core.noise import LearntNoise, Prior
from pytest_dlperf.judge.learn import learn

BUILT_IN = Prior(run_sd=0.008, session_sd=0.006)


def cases(
    seed: int, *, count: int, run_sd: list[float], session_sd: float, sessions: int = 5
) -> list[list[object]]:
    rng = np.random.default_rng(seed)
    return [
        [
            session([float(x) for x in 100 * np.exp(shift + rng.normal(0, sd, 5))])
            for shift in rng.normal(0, session_sd, sessions)
        ]
        for sd in (run_sd * count)[:count]
    ]


def learnt(levels: list[list[object]]) -> LearntNoise:
    found = learn(levels, BUILT_IN)  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.mark.parametrize(("run_sd", "session_sd"), [(0.005, 0.002), (0.02, 0.015), (0.01, 0.03)])
def test_many_cases_tell_their_noise(run_sd: float, session_sd: float) -> None:
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


def test_one_case_tells_little() -> None:
    found = learnt(cases(3, count=1, run_sd=[0.002], session_sd=0.0, sessions=2))
    assert 0.002 < found.run_sd < BUILT_IN.run_sd
    assert found.session_sd == pytest.approx(BUILT_IN.session_sd, rel=0.3)
    assert not found.prior.learnt


def test_single_runs_tell_nothing() -> None:
    assert learn([[session([100.0]), session([101.0])], []], BUILT_IN) is None


def test_runs_that_are_all_alike_leave_a_floor() -> None:
    found = learnt([[session([100.0] * 5)] * 10] * 10)
    assert found.run_sd >= 0.001
    assert found.session_sd >= 0.001
