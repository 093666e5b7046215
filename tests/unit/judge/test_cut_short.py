"""Verdicts for which there was no time left."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.judge.budget import cut_short, never_measured
from pytest_dlperf.judge.verdict import plain_judgement
from tests.helpers.judge_builders import judged_by

AGAIN = "run it again, it runs first next time"


def compared(verdict: Verdict, change: float = -0.4) -> Comparison:
    return Comparison(
        now=60.0, before=100.0, change=change, interval=(change - 0.01, change + 0.01),
        tolerance=0.05, verdict=verdict,
    )  # fmt: skip


def judgement(verdict: Verdict) -> Judgement:
    """Return a judgement with this verdict, as the judge makes it."""
    problem = {Verdict.INCOMPARABLE: "disturbed", Verdict.UNSTEADY: "drift"}.get(verdict)
    if problem:
        return judged_by(compared(Verdict.REGRESSED), problem=problem)
    if verdict in {Verdict.ERROR, Verdict.NOT_RUN, Verdict.NO_BASELINE}:
        return plain_judgement(verdict, "so", throughput=Comparison(verdict=verdict))
    return judged_by(compared(verdict))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_what_fresh_runs_had_to_confirm_is_taken_back(verdict: Verdict) -> None:
    judged = judgement(verdict)
    assert judged.verdict is verdict
    found = cut_short(judged, "45 min", looked=False)
    taken_back = verdict is Verdict.REGRESSED
    assert found.verdict is (Verdict.INCONCLUSIVE if taken_back else verdict)
    assert found.throughput.verdict is found.verdict
    assert ("45 min" in found.reason) is (verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE})
    assert found.reason.endswith(AGAIN) is taken_back


def test_a_metric_that_looked_worse_is_taken_back_and_the_throughput_stays() -> None:
    judged = judged_by(compared(Verdict.PASSED, 0.0), peak_memory=compared(Verdict.REGRESSED, 0.3))
    assert judged.verdict is Verdict.REGRESSED
    found = cut_short(judged, "45 min", looked=False)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.throughput.verdict is Verdict.PASSED
    assert found.metrics["peak_memory"].verdict is Verdict.INCONCLUSIVE


def test_a_count_that_is_worse_needs_no_confirmation() -> None:
    count = Comparison(now=4, before=3, change=1 / 3, tolerance=0.0, verdict=Verdict.REGRESSED)
    judged = judged_by(compared(Verdict.REGRESSED), graph_breaks=count)
    found = cut_short(judged, "45 min", looked=False)
    assert found.verdict is Verdict.REGRESSED
    assert found.metrics == judged.metrics
    assert found.reason == f"{judged.reason}\nthe budget of 45 min is spent"


def test_what_is_slower_at_a_look_stays_regressed_and_says_that_nothing_confirmed_it() -> None:
    judged = judgement(Verdict.REGRESSED)
    found = cut_short(judged, "45 min", looked=True)
    assert found.verdict is Verdict.REGRESSED
    assert found.throughput == judged.throughput
    assert found.reason == (
        f"{judged.reason}\nthe budget of 45 min was spent before fresh runs confirmed it"
    )


def test_what_was_never_measured_is_open() -> None:
    found = never_measured("a-case", "45 min")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.throughput == Comparison()
    assert "--dlperf-budget" in found.reason
