"""Worlds of noise for ``verdict_worlds.py``: what runs, sessions and pairs of runs differ by.

A world draws the logs of rates of unchanged code: stored runs (cases, sessions, 5), runs of now
(cases, 20), and differences of pairs of runs (cases, 20). Pairs are of two trees on one machine,
so that what a session adds is in both; they vary by 1.3 %, as quiet ones on shared CPUs do, or
by 2 %.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Logs: TypeAlias = NDArray[np.float64]
World: TypeAlias = Callable[[np.random.Generator, int, int], tuple[Logs, Logs, Logs]]
#: Stored runs, and runs of now.
_Sides: TypeAlias = "tuple[Logs, Logs]"
_Draw: TypeAlias = Callable[[np.random.Generator, int, int], "_Sides"]
_DrawPairs: TypeAlias = Callable[[np.random.Generator, int], Logs]

#: Runs of a stored session, and runs and pairs of now.
_RUNS, _NOW = 5, 20
_SD: Final = 0.01
_MODES_APART: Final = 0.10
_MOVED: Final = 0.083


def _sides(of_sessions: Logs, runs: Logs) -> _Sides:
    """Return both sides of sessions (cases, sessions + 1), the last one now, and of their runs.

    ``runs`` has the shape (cases, 5 * sessions + 20).
    """
    cases, sessions = len(runs), of_sessions.shape[1] - 1
    stored = runs[:, : _RUNS * sessions].reshape(cases, sessions, _RUNS)
    return stored + of_sessions[:, :-1, None], runs[:, _RUNS * sessions :] + of_sessions[:, -1:]


def _runs(rng: np.random.Generator, cases: int, sessions: int, sd: float = _SD) -> Logs:
    return sd * rng.standard_normal((cases, _RUNS * sessions + _NOW))


def runs_alone(rng: np.random.Generator, cases: int, sessions: int) -> _Sides:
    """Return runs that differ, of sessions that do not."""
    return _sides(np.zeros((cases, sessions + 1)), _runs(rng, cases, sessions))


def sessions_differ(
    rng: np.random.Generator, cases: int, sessions: int, *, sd: float, run_sd: float, alike: bool
) -> _Sides:
    """Return sessions that differ too; ``alike``: by the same for all cases of a suite."""
    of_sessions = sd * rng.standard_normal((1 if alike else cases, sessions + 1))
    return _sides(of_sessions, _runs(rng, cases, sessions, run_sd))


def heavy_tails(rng: np.random.Generator, cases: int, sessions: int) -> _Sides:
    """Return runs and sessions by Student's t, with 2 and 3 degrees of freedom."""
    of_sessions = _SD * rng.standard_t(3, (cases, sessions + 1))
    return _sides(of_sessions, _SD * rng.standard_t(2, (cases, _RUNS * sessions + _NOW)))


def random_walk(rng: np.random.Generator, cases: int, sessions: int) -> _Sides:
    """Return sessions of which each differs from the one before it."""
    steps = _SD * rng.standard_normal((cases, sessions + 1))
    return _sides(np.cumsum(steps, axis=1), _runs(rng, cases, sessions))


def modes_by_session(
    rng: np.random.Generator, cases: int, sessions: int, *, slow: float, alike: bool
) -> _Sides:
    """Return sessions of which a share ``slow`` is 10 % slower; ``alike``: for all cases."""
    is_slow = rng.random((1 if alike else cases, sessions + 1)) < slow
    return _sides(np.where(is_slow, -_MODES_APART, 0.0), _runs(rng, cases, sessions))


def modes_by_run(rng: np.random.Generator, cases: int, sessions: int) -> _Sides:
    """Return runs of which half, by chance, are 10 % slower."""
    runs = _runs(rng, cases, sessions)
    return _sides(
        np.zeros((cases, sessions + 1)), runs - _MODES_APART * (rng.random(runs.shape) < 0.5)
    )


def runs_remember(rng: np.random.Generator, cases: int, sessions: int) -> _Sides:
    """Return runs that remember the one before: AR(1) with 0.9 and a deviation of 2 %."""
    stored = autocorrelated(rng, (cases, sessions, _RUNS), 0.9, 0.02)
    return stored, autocorrelated(rng, (cases, _NOW), 0.9, 0.02)


def one_slow_run(rng: np.random.Generator, cases: int, sessions: int) -> _Sides:
    """Return runs of which one of the first three of now is 30 % slower."""
    stored, now = runs_alone(rng, cases, sessions)
    now[np.arange(cases), rng.integers(0, 3, cases)] += np.log(0.7)
    return stored, now


def machine_moved(rng: np.random.Generator, cases: int, sessions: int, *, by: float) -> _Sides:
    """Return runs of a machine that is slower or faster now, which no canary says."""
    stored, now = runs_alone(rng, cases, sessions)
    return stored, now + by


def autocorrelated(
    rng: np.random.Generator, shape: tuple[int, ...], memory: float, sd: float
) -> Logs:
    """Return AR(1) values along the last axis, whose deviation is ``sd`` everywhere."""
    series = rng.standard_normal(shape)
    for i in range(1, shape[-1]):
        series[..., i] = memory * series[..., i - 1] + np.sqrt(1 - memory**2) * series[..., i]
    return sd * series


def pairs_vary(rng: np.random.Generator, cases: int, *, sd: float, each_arm: float = 0.0) -> Logs:
    """Return pairs that vary; ``each_arm``: an arm is off by so much for the whole session."""
    offset = each_arm * rng.standard_normal((cases, 1))
    return offset + sd * rng.standard_normal((cases, _NOW))


def arm_made_anew(rng: np.random.Generator, cases: int, *, sd: float, each_arm: float) -> Logs:
    """Return pairs of an arm that is made anew for each, and off by chance each time."""
    return pairs_vary(rng, cases, sd=sd) + each_arm * rng.standard_normal((cases, _NOW))


def pairs_remember(rng: np.random.Generator, cases: int, *, sd: float) -> Logs:
    """Return pairs that remember the one before: AR(1) with 0.8."""
    return autocorrelated(rng, (cases, _NOW), 0.8, sd)


def _with_pairs(draw: _Draw, draw_pairs: _DrawPairs) -> World:
    def world(rng: np.random.Generator, cases: int, sessions: int) -> tuple[Logs, Logs, Logs]:
        stored, now = draw(rng, cases, sessions)
        return stored, now, draw_pairs(rng, cases)

    return world


_STORED: Final[Mapping[str, _Draw]] = {
    "runs 1 %": runs_alone,
    "runs 1 %, sessions 1 %": partial(sessions_differ, sd=0.01, run_sd=0.01, alike=False),
    "runs 0.5 %, sessions 3 %": partial(sessions_differ, sd=0.03, run_sd=0.005, alike=False),
    "runs 0.5 %, sessions 3 %, all cases alike": partial(
        sessions_differ, sd=0.03, run_sd=0.005, alike=True
    ),
    "heavy tails": heavy_tails,
    "random walk, 1 % a session": random_walk,
    "two modes by session, all cases alike": partial(modes_by_session, slow=0.5, alike=True),
    "two modes by session": partial(modes_by_session, slow=0.5, alike=False),
    "a slow mode in one session of six": partial(modes_by_session, slow=1 / 6, alike=False),
    "two modes by run": modes_by_run,
    "runs remember (AR 0.9, 2 %)": runs_remember,
    "one run of now 30 % slower": one_slow_run,
    "machine 8 % slower now": partial(machine_moved, by=-_MOVED),
    "machine 8 % faster now": partial(machine_moved, by=_MOVED),
}
_PAIRS: Final[Mapping[str, _DrawPairs]] = {
    "pairs 1.3 %": partial(pairs_vary, sd=0.013),
    "pairs 2 %": partial(pairs_vary, sd=0.02),
}
#: Of these worlds most cases go on to pairs.
_ODD_PAIRS: Final[Mapping[str, _DrawPairs]] = {
    f"{name} {noise}": partial(draw, sd=sd)
    for noise, sd in (("1.3 %", 0.013), ("2 %", 0.02))
    for name, draw in (
        ("arm's own offset 1 %, pairs", partial(pairs_vary, each_arm=0.01)),
        ("arm made anew for each pair, offset 1 %, pairs", partial(arm_made_anew, each_arm=0.01)),
        ("pairs remember (AR 0.8),", pairs_remember),
    )
}
WORLDS: Final[dict[str, World]] = {
    f"{name}; {pairs}": _with_pairs(draw, draw_pairs)
    for pairs, draw_pairs in _PAIRS.items()
    for name, draw in _STORED.items()
} | {
    f"runs 0.5 %, sessions 3 %; {pairs}": _with_pairs(
        _STORED["runs 0.5 %, sessions 3 %"], draw_pairs
    )
    for pairs, draw_pairs in _ODD_PAIRS.items()
}
