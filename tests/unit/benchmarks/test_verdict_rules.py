"""The adapters of the verdict benchmark: what is slower is flagged, what is equal is not."""

from __future__ import annotations

import importlib
import math

import numpy as np
import pytest

from pytest_dlperf.core.verdict import Rule
from verdict_rules import ADAPTERS, load, ours
from verdict_rules.peer import PeerRule, Seconds
from verdict_study.trial import supply

pytestmark = pytest.mark.once

RULE = Rule(family=24, tolerance=0.02, min_effect=0.005, alpha=0.05)


def runs(seed: int, count: int = 7, slower: float = 1.0) -> Seconds:
    rng = np.random.default_rng(seed)
    seconds: Seconds = 0.1 * slower * np.exp(0.01 * rng.standard_normal((count, 100)))
    return seconds


@pytest.fixture(params=ADAPTERS)
def rules(request: pytest.FixtureRequest) -> tuple[PeerRule, ...]:
    pytest.importorskip(
        ADAPTERS[request.param].replace("-hpc", "").replace("-", "_"),
        reason=f"{ADAPTERS[request.param]} is not installed here (tox -e bench-verdicts has it)",
    )
    found: tuple[PeerRule, ...] = importlib.import_module(f"verdict_rules.{request.param}").RULES
    return found


@pytest.mark.parametrize("count", [5, 7])
def test_an_obvious_slowdown_is_flagged(rules: tuple[PeerRule, ...], count: int) -> None:
    for rule in rules:
        assert rule.regressed(runs(1, count), runs(2, count, slower=1.3)), rule.name


def test_what_is_faster_or_equal_is_not_flagged(rules: tuple[PeerRule, ...]) -> None:
    for rule in rules:
        side = runs(3)
        assert not rule.regressed(side, side.copy()), rule.name
        assert not rule.regressed(side, runs(4, slower=0.7)), rule.name


def test_a_threshold_is_the_one_in_the_name(rules: tuple[PeerRule, ...]) -> None:
    # Constant runs: nothing but the size of the change counts.
    limits = {
        "pytest-benchmark mean:5%": 1.05,
        "pytest-benchmark min:5%": 1.05,
        "ReFrame -5%": 1 / 0.95,
        "ReFrame -3%": 1 / 0.97,
    }
    for rule in rules:
        if rule.name in limits:
            one = np.full((1, 100), 0.1)
            assert not rule.regressed(one, one * (limits[rule.name] - 0.001)), rule.name
            assert rule.regressed(one, one * (limits[rule.name] + 0.001)), rule.name


def test_a_peer_that_is_missing_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ADAPTERS, "no_such_rule", "no-such-tool")
    rules, missing = load()
    assert "no_such_rule" in missing["no-such-tool"]
    assert any(rule.tool == "Mann-Whitney" for rule in rules), "SciPy is always here"


def test_our_rates_are_those_over_all_time_and_of_the_median_iteration() -> None:
    found = ours.runs(np.array([[0.1, 0.2, 4.0], [0.5, 0.5, 0.5]]))
    assert [run.by_median for run in found] == [5.0, 2.0]
    assert [run.by_time for run in found] == pytest.approx([3 / 4.3, 2.0])


@pytest.mark.parametrize(("slower", "verdict"), [(1.0, "passed"), (1.3, "regressed")])
def test_our_stored_rule(slower: float, verdict: str) -> None:
    history = [ours.runs(runs(seed, 5)) for seed in range(10, 15)]
    found, used = ours.stored(
        history, supply(ours.runs(runs(20, 10, slower))), rule=RULE, device="gpu"
    )
    assert (found, used) == (verdict, 3 if verdict == "passed" else 5)


@pytest.mark.parametrize(("slower", "verdict"), [(1.0, "passed"), (1.3, "regressed")])
def test_our_interleaved_rule(slower: float, verdict: str) -> None:
    sides = ours.runs(runs(21, 10)), ours.runs(runs(22, 10, slower))
    found, _ = ours.interleaved(supply(list(zip(*sides, strict=True))), rule=RULE, device="gpu")
    assert found == verdict


def test_what_the_whole_window_lost_is_not_passed() -> None:
    """Iterations that stall now and then: the median iteration is what it was."""
    before, stalled = runs(23, 10), runs(24, 10)
    stalled[:, ::20] *= 2.0
    sides = ours.runs(before), ours.runs(stalled)
    found, _ = ours.interleaved(supply(list(zip(*sides, strict=True))), rule=RULE, device="gpu")
    assert found == "regressed"


def test_a_rule_cannot_take_more_runs_than_there_are() -> None:
    draw = supply([1.0, 2.0, 3.0])
    assert draw(2) == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="wants 2 more runs, and 1 are left"):
        draw(2)
    assert math.isclose(*draw(1), 3.0)
