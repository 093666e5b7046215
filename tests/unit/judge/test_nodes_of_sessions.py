"""Sessions of several nodes: of the same node where there are enough, and a term for a new one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import RankSummary
from pytest_dlperf.core.verdict import Judgement, Prior, Rule, Verdict
from pytest_dlperf.judge import judge
from tests.helpers.judge_builders import around, baseline, case, measurement, session

KNOWN = Prior(run_sd=0.01, session_sd=0.006, run_df=30, session_df=30, learnt=True)
FAMILY = 24
RULE = Rule(family=FAMILY, prior=KNOWN, tolerance=0.05)
SUBJECT = case("1n2g")


def stored_on(node: str, rates: list[float]) -> Session:
    return replace(session(rates), node=node)


def now_on(node: str, rates: list[float]) -> Measurement:
    found = measurement(rates)
    rank = RankSummary(
        rank=0, node=node, seconds=1.0, cpu_seconds=1.0, peak_memory_bytes=0,
        loss_first=None, loss_last=None,
    )  # fmt: skip
    return replace(found, runs=tuple(replace(run, ranks=(rank,)) for run in found.runs))


def judged(now: Measurement, *sessions: Session) -> Judgement:
    return judge(SUBJECT, now, baseline(*sessions), RULE)


def test_a_new_node_may_be_as_much_slower_as_nodes_are() -> None:
    stored = [stored_on("n1", around(100.0)) for _ in range(5)]
    same = judged(now_on("n1", around(94.0, runs=10)), *stored)
    other = judged(now_on("n2", around(94.0, runs=10)), *stored)
    assert same.verdict is Verdict.REGRESSED
    assert other.verdict is Verdict.INCONCLUSIVE
    assert "no session of node n2 is stored" in other.reason
    assert "nothing is stored" not in same.reason


def test_where_nodes_are_not_known_they_are_taken_for_one() -> None:
    stored = [session(around(100.0)) for _ in range(5)]
    assert judged(now_on("n2", around(94.0, runs=10)), *stored).verdict is Verdict.REGRESSED


def test_a_node_with_sessions_enough_is_compared_with_itself() -> None:
    stored = [
        *(stored_on("slow", around(90.0)) for _ in range(3)),
        *(stored_on("fast", around(100.0)) for _ in range(3)),
    ]
    found = judged(now_on("slow", around(90.0, runs=10)), *stored)
    assert found.verdict is Verdict.PASSED
    assert found.throughput.before == pytest.approx(90.0)
    assert judged(now_on("fast", around(90.0, runs=10)), *stored).verdict is Verdict.REGRESSED


@pytest.mark.parametrize(("nodes", "sessions"), [(1, 5), (2, 5), (3, 2)])
def test_unchanged_cases_on_a_new_node_are_not_alarmed_beyond_alpha(
    nodes: int, sessions: int
) -> None:
    """Nodes of 2 % standard deviation, as is believed; alpha is split over 24."""
    rng, tries = np.random.default_rng(1), 400

    def rates(offset: float) -> list[float]:
        level = offset + rng.normal(0, KNOWN.session_sd)
        return [float(r) for r in 100 * np.exp(level + rng.normal(0, KNOWN.run_sd, 5))]

    alarms = 0
    for _ in range(tries):
        offsets = rng.normal(0, 0.02, nodes + 1)
        stored = [
            stored_on(f"n{i}", rates(offsets[i])) for i in range(nodes) for _ in range(sessions)
        ]
        found = judged(now_on("new", rates(offsets[nodes])), *stored)
        alarms += found.verdict is Verdict.REGRESSED
    assert alarms <= binom.ppf(0.999, tries, RULE.alpha / FAMILY)
