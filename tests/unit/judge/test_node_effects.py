"""Which node is slow over all cases: least squares on made-up sessions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from pytest_dlperf.cli.nodes import render
from pytest_dlperf.core.command_results import NodeEffect, NodeEffects
from pytest_dlperf.judge.stats.node_effects import Observation, node_effects

pytestmark = pytest.mark.newest


def observed(
    seed: int,
    *,
    nodes: str = "abcd",
    cases: int = 6,
    days: int = 2,
    slow: dict[str, float] | None = None,
    noise: float = 0.005,
    day_noise: float = 0.0,
) -> list[Observation]:
    """``day_noise`` is shared by all cases of a node's day: one session of the suite."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, day_noise, (len(nodes), days))
    return [
        Observation(
            case=f"case{case}",
            node=node,
            log_throughput=float(case + math.log1p(-(slow or {}).get(node, 0)))
            + float(rng.normal(0, noise))
            + float(shared[nodes.index(node), day]),
            time=f"2026-11-{day + 1:02}T0{case % 10}:00:00Z",
            commit="c",
        )
        for case in range(cases)
        for node in nodes
        for day in range(days)
    ]


def effects(found: list[Observation]) -> NodeEffects:
    return node_effects(found, alpha=0.05)


def by_name(found: NodeEffects) -> dict[str, NodeEffect]:
    return {one.node: one for one in found.nodes}


def test_a_node_planted_slow_is_named() -> None:
    found = effects(observed(1, slow={"c": 0.04}))
    (slow,) = found.slow
    assert slow.node == "c"
    assert slow.change == pytest.approx(-0.04, abs=0.005)
    assert (slow.cases, slow.sessions, slow.suite_sessions) == (6, 12, 2)
    assert found.nodes[0] is slow
    assert "c is 4." in render(found) or "c is 3." in render(found)
    assert "slower than the others over 6 cases (p < 0.001)" in render(found)


@pytest.mark.parametrize("day_noise", [0.0, 0.005, 0.01])
def test_where_no_node_is_slow_none_is_called_so(day_noise: float) -> None:
    tries = 200
    found = [effects(observed(seed, days=4, day_noise=day_noise)) for seed in range(tries)]
    alarms = sum(bool(one.slow) for one in found)
    # At most alpha, whatever the number of nodes, and of cases that share a day.
    assert alarms <= binom.ppf(0.999, tries, 0.05)
    assert all(one.p is not None for one in found[0].nodes)
    assert "no node is slower than the others for certain" in render(effects(observed(0)))


def test_effects_are_those_of_a_regression_with_dummies() -> None:
    found = [one for i, one in enumerate(observed(2, slow={"b": 0.02})) if i % 5]
    names = sorted({one.node for one in found})
    cases = sorted({one.case for one in found})
    design = np.array(
        [
            [*(one.case == case for case in cases), *(one.node == node for node in names[1:])]
            for one in found
        ],
        float,
    )
    values = np.array([one.log_throughput for one in found])
    beta, rss, _, _ = np.linalg.lstsq(design, values, rcond=None)
    against_mean = np.eye(len(names)) - 1 / len(names)
    contrast = np.hstack([np.zeros((len(names), len(cases))), against_mean[:, 1:]])
    # The spread between sessions of the suite: what they leave less than nodes do.
    suites = sorted({(one.node, one.time[:10]) for one in found})
    finer = np.array(
        [
            [
                *(one.case == case for case in cases),
                *((one.node, one.time[:10]) == suite for suite in suites[1:]),
            ]
            for one in found
        ],
        float,
    )
    _, left, _, _ = np.linalg.lstsq(finer, values, rcond=None)
    between = (rss[0] - left[0]) / (finer.shape[1] - design.shape[1])
    within = left[0] / (len(found) - finer.shape[1])
    variance = max(between, within) * np.linalg.inv(design.T @ design)
    expected = contrast @ beta
    errors = np.sqrt(np.diag(contrast @ variance @ contrast.T))
    mine = by_name(effects(found))
    for name, effect, error in zip(names, expected, errors, strict=True):
        assert mine[name].effect == pytest.approx(effect, abs=1e-9)
        assert mine[name].effect_se == pytest.approx(error, rel=1e-6)


def test_nodes_are_compared_through_a_chain_of_cases() -> None:
    ab = [one for one in observed(3, slow={"c": 0.1}) if one.case == "case0" and one.node in "ab"]
    bc = [one for one in observed(3, slow={"c": 0.1}) if one.case == "case1" and one.node in "bc"]
    found = by_name(effects(ab + bc))
    assert found["c"].effect is not None
    assert found["a"].effect is not None
    assert found["c"].effect - found["a"].effect == pytest.approx(math.log(0.9), abs=0.02)


def test_nodes_without_a_common_case_are_not_compared() -> None:
    ab = [one for one in observed(4) if one.case < "case3" and one.node in "ab"]
    cd = [one for one in observed(4) if one.case >= "case3" and one.node in "cd"]
    alone = [Observation(case="x", node="e", log_throughput=1.0, time="2026-11-01T00:00:00Z")]
    found = effects(ab + cd + alone)
    named = by_name(found)
    assert named["a"].group == named["b"].group != named["c"].group == named["d"].group
    assert named["e"].effect is None
    assert "cannot be compared, for they have no case in common: a, b | c, d | e" in render(found)


def test_one_session_each_shows_no_noise() -> None:
    found = effects(observed(5, nodes="ab", cases=1, days=1, slow={"b": 0.5}))
    assert {one.effect for one in found.nodes} == {None}
    assert found.slow == ()
    assert "a, b: too few sessions to distinguish noise from a slow node" in render(found)


def test_a_node_that_ran_one_session_of_the_suite_may_have_had_a_bad_day() -> None:
    found = effects(
        [
            one
            for one in observed(6, slow={"c": 0.05})
            if one.node != "c" or one.time < "2026-11-02"
        ]
    )
    (slow,) = found.slow
    assert slow.suite_sessions == 1
    assert "it may have been that day alone" in render(found)


def test_sessions_without_noise_are_no_division_by_zero() -> None:
    found = by_name(effects(observed(7, nodes="ab", noise=0.0)))
    assert found["a"].effect == pytest.approx(0.0, abs=1e-9)
    assert found["a"].p_corrected == pytest.approx(1.0)
    slow = effects(observed(7, nodes="abc", noise=0.0, slow={"b": 0.01})).slow
    assert [one.node for one in slow] == ["b"]


def test_one_node_has_nothing_to_be_compared_with() -> None:
    found = effects(observed(8, nodes="a"))
    assert found.nodes[0].effect is None
    assert "all sessions ran on a: there is no other node" in render(found)
    assert "no session recorded its node" in render(effects([]))


def test_thousands_of_sessions_of_the_suite_are_compared() -> None:
    """As quickly as few: the equations are as many as there are cases and nodes."""
    many = [
        Observation(
            case=f"case{i % 3}",
            node="ab"[i // 3 % 2],
            log_throughput=float(i % 3) + 0.01 * math.sin(i * i),
            time=f"2000-{i // 3 % 12 + 1:02}-{i // 36 % 28 + 1:02}T00:00:00Z",
            commit=str(i // 3),
        )
        for i in range(10_000)
    ]
    found = effects(many)
    assert sum(one.suite_sessions for one in found.nodes) == 3334
    assert found.slow == ()
