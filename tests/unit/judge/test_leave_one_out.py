"""Each stored session against the others of its level, and what rate of alarms that gives."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import binom

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.verdict import TOLERANCE, Rule, Verdict
from pytest_dlperf.judge.compare import compare
from pytest_dlperf.judge.leave_one_out import (
    Stamp,
    alarms_in,
    can_be_certified,
    leave_one_out,
    observed_rate,
    sides_of_level,
    suite_sessions,
)
from pytest_dlperf.judge.metrics import metrics_of
from pytest_dlperf.judge.screen import ONE_LOOK
from pytest_dlperf.judge.sides import Sides, session_value
from pytest_dlperf.judge.stats.contrast import squares_of_runs
from pytest_dlperf.judge.stats.family import throughput_rule
from pytest_dlperf.judge.stats.priors import THROUGHPUT
from tests.helpers.judge_builders import Noise, around, session

pytestmark = pytest.mark.newest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_dlperf.core.layout import DeviceKind
    from pytest_dlperf.core.verdict import Comparison
    from pytest_dlperf.judge.metrics import CaseMetric

PRIOR = THROUGHPUT["gpu"]
GPU = {"session_sd": 0.01, "run_sd": 0.008}


def each_left_out(
    stored: Sequence[Session], device: DeviceKind, rule: Rule
) -> tuple[Mapping[str, Comparison], ...]:
    return leave_one_out(stored, every_metric(device, stored, rule), rule)


def every_metric(
    device: DeviceKind, stored: Sequence[Session], rule: Rule
) -> tuple[CaseMetric, ...]:
    tolerance = TOLERANCE if rule.tolerance is None else rule.tolerance
    return metrics_of((), device, stored, tolerance=tolerance)


def sessions(seed: int, count: int, *, sd: dict[str, float] = GPU) -> list[Session]:
    world = Noise(seed, **sd)
    return [session(world.rates(world.level(), 5)) for _ in range(count)]


def test_runs_that_others_slowed_are_left_out_of_the_spread_as_in_a_live_session() -> None:
    stored = sessions(7, 8)
    slowed = tuple(0.5 * rate if i == 1 else rate for i, rate in enumerate(stored[2].runs))
    levels = [session_value(one.runs) for one in (*stored, replace(stored[2], runs=slowed))]
    found = [squares_of_runs(levels[:i] + levels[i + 1 :], PRIOR) for i in range(len(levels))]
    assert {df for df, _ in found[:8]} == {8 * 4 - 1}
    assert found[8][0] == 8 * 4
    assert max(total for _, total in found) < 0.01  # log(2)² / 2 alone is 0.24


def test_a_session_left_out_is_judged_as_the_live_rule_judges_it() -> None:
    stored, rule = sessions(1, 8), Rule(family=24)
    for i, found in enumerate(each_left_out(stored, "gpu", rule)):
        levels = [session_value(one.runs) for one in stored]
        now = levels.pop(i)
        sides = Sides(now=now, stored=tuple(levels), prior=PRIOR)
        live = compare(sides, TOLERANCE, throughput_rule(rule), ONE_LOOK)
        mine = found["throughput"]
        assert mine.verdict is live.verdict
        assert mine.change == pytest.approx(live.change, abs=1e-12)
        assert mine.sees == pytest.approx(live.sees)
        assert mine.tolerance == pytest.approx(live.tolerance)


def test_a_session_planted_slow_is_the_one_that_is_named() -> None:
    stored = sessions(2, 8)
    stored[5] = replace(stored[5], runs=tuple(0.9 * rate for rate in stored[5].runs))
    judged = each_left_out(stored, "gpu", Rule(family=3))
    assert [sorted(alarms_in(one)) for one in judged] == [
        ["throughput"] if i == 5 else [] for i in range(8)
    ]
    assert judged[5]["throughput"].change == pytest.approx(-0.1, abs=0.02)


@pytest.mark.parametrize("family", [1, 4])
def test_the_rate_is_that_of_the_noise(family: int) -> None:
    # What the prior believes is the truth here, so about alpha / family of the sessions alarm;
    # with a tolerance of nearly nothing, none of them passes by it.
    rule = Rule(family=family, alpha=0.2, min_effect=0.0, tolerance=0.0001)
    alarms = tries = 0
    for seed in range(150):
        judged = each_left_out(sessions(seed, 10), "gpu", rule)
        alarms += sum(len(alarms_in(one)) for one in judged)
        tries += len(judged)
    assert alarms / tries == pytest.approx(0.2 / family, rel=0.25)


def _alarms(baselines: Iterable[list[Session]], rule: Rule) -> tuple[int, int]:
    """Return alarms and tries over all sessions of all baselines."""
    alarms = tries = 0
    for stored in baselines:
        judged = each_left_out(stored, "gpu", rule)
        alarms += sum(bool(alarms_in(one)) for one in judged)
        tries += len(judged)
    return alarms, tries


ALONE = Rule(family=1)


def test_days_that_differ_more_than_is_believed_raise_no_more_alarms() -> None:
    # 12 times as much: then their own spread alone counts.
    noisy = (sessions(seed, 10, sd={"session_sd": 0.12, "run_sd": 0.008}) for seed in range(60))
    alarms, tries = _alarms(noisy, ALONE)
    assert 0 < alarms <= binom.ppf(0.999, tries, ALONE.alpha)


def test_a_machine_that_is_slow_on_some_days_is_seen() -> None:
    def with_a_slow_day(seed: int) -> list[Session]:
        *others, last = sessions(seed, 8)
        return [*others, replace(last, runs=tuple(0.85 * rate for rate in last.runs))]

    alarms, tries = _alarms(map(with_a_slow_day, range(40)), ALONE)
    interval = observed_rate(alarms, tries).interval
    assert interval is not None
    assert interval[0] > ALONE.alpha


def _with(**fields: Any) -> Session:
    return replace(session(around(100.0)), **fields)


def test_memory_that_grew_and_a_speedup_that_fell_are_alarms_of_their_own() -> None:
    same = {"speedup": 2.0, "parent_runs": tuple(around(50.0)), "peak_memory_bytes": (1e9,) * 5}
    grown = _with(**same | {"peak_memory_bytes": (1.2e9,) * 5})
    judged = each_left_out([*[_with(**same)] * 5, grown], "gpu", Rule(family=3))
    assert [sorted(alarms_in(one)) for one in judged] == [[]] * 5 + [["peak_memory"]]
    assert set(judged[0]) == {"throughput", "speedup", "peak_memory"}
    # One device became faster, and the throughput is certified: no alarm, as in a live session.
    faster = _with(**same | {"parent_runs": tuple(around(65.0))})
    judged = each_left_out([*[_with(**same)] * 5, faster], "gpu", Rule(family=3))
    assert judged[5]["speedup"].verdict is Verdict.REGRESSED
    assert alarms_in(judged[5]) == frozenset()


def test_a_metric_that_fewer_than_three_sessions_have_is_not_judged() -> None:
    stored = [_with(peak_memory_bytes=(1e9,) * 5 if i < 2 else ()) for i in range(6)]
    assert all(set(one) == {"throughput"} for one in each_left_out(stored, "gpu", Rule()))


def test_where_the_others_scatter_there_is_no_alarm_but_no_certificate_either() -> None:
    stored = [
        session(around(level, 0.1), memory=int(1e7 * level))
        for level in (60.0, 100.0, 150.0, 90.0)
    ]
    rule = Rule()
    judged = each_left_out(stored, "cpu", rule)
    assert judged[0]["throughput"].verdict is Verdict.INCONCLUSIVE
    assert not any(map(alarms_in, judged))
    metric = every_metric("cpu", stored, rule)[0]
    sides = sides_of_level(stored, metric)
    assert sides is not None
    assert not can_be_certified(sides, metric, rule)
    wide = Rule(tolerance=0.9)
    assert can_be_certified(sides, every_metric("cpu", stored, wide)[0], wide)


def test_sessions_without_variance_are_at_their_level() -> None:
    judged = each_left_out([session([100.0] * 5)] * 4, "gpu", Rule())
    assert {one["throughput"].verdict for one in judged} == {Verdict.PASSED}
    assert {one["throughput"].change for one in judged} == {0.0}


def test_a_longer_level_than_is_kept_is_judged_as_a_short_one_is() -> None:
    many = sessions(3, 50)
    judged = each_left_out(many, "gpu", Rule(family=1))
    changes = [one["throughput"].change or 0.0 for one in judged]
    assert len(judged) == 50
    assert statistics.stdev(changes) == pytest.approx(0.0109, rel=0.3)
    alarms = sum(bool(alarms_in(one)) for one in judged)
    assert alarms <= binom.ppf(0.999, 50, 0.05)


@pytest.mark.parametrize(("alarms", "tries"), [(0, 10), (3, 40), (7, 7), (1, 1000)])
def test_the_interval_is_that_of_clopper_and_pearson(alarms: int, tries: int) -> None:
    found = observed_rate(alarms, tries)
    assert found.rate == alarms / tries
    low, high = found.interval or (0.0, 0.0)
    # At either end, what was seen or more of it has a chance of 2.5 %.
    if alarms:
        assert binom.sf(alarms - 1, tries, low) == pytest.approx(0.025, rel=1e-6)
    else:
        assert low == 0
    if alarms < tries:
        assert binom.cdf(alarms, tries, high) == pytest.approx(0.025, rel=1e-6)
    else:
        assert high == 1


def test_of_nothing_there_is_no_rate() -> None:
    found = observed_rate(0, 0)
    assert found.rate is None
    assert found.interval is None


def stamp(case: str, time: str, *place: str) -> Stamp:
    return Stamp(case=case, time=f"2026-01-01T{time}:00Z", place=place or ("2x-test", "n1", "c1"))


def test_cases_of_one_commit_that_follow_each_other_are_one_session_of_the_suite() -> None:
    found = suite_sessions(
        [
            stamp("a", "08:00"),
            stamp("b", "09:30"),
            stamp("c", "11:29"),
            stamp("d", "13:30"),  # more than two hours later
            stamp("a", "08:10", "2x-test", "n2", "c1"),
            stamp("a", "08:10", "2x-test", "n1", "c2"),
            stamp("b", "13:40"),
            stamp("d", "13:50"),  # a case runs once in a session
        ]
    )
    assert found[0] == found[1] == found[2]
    assert found[3] == found[6]
    assert len(set(found)) == 5


def test_times_with_and_without_a_zone_are_one_session() -> None:
    times = ("2026-01-01T08:00:00Z", "2026-01-01T08:30:00", "2026-01-01T10:00:00+01:00")
    stamps = [Stamp(case=f"{i}", time=time, place=()) for i, time in enumerate(times)]
    assert set(suite_sessions(stamps)) == {0}


def test_the_order_in_which_sessions_are_given_changes_nothing() -> None:
    rng = np.random.default_rng(1)
    stored = sessions(4, 6)
    order = [int(i) for i in rng.permutation(6)]
    judged = each_left_out(stored, "gpu", Rule())
    shuffled = each_left_out([stored[i] for i in order], "gpu", Rule())
    for place, i in enumerate(order):
        mine, theirs = judged[i]["throughput"], shuffled[place]["throughput"]
        assert mine.change == pytest.approx(theirs.change, abs=1e-12)
