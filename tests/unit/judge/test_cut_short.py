"""Verdicts for which there was no time left."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.judge.budget import cut_short, never_measured


@pytest.mark.parametrize("verdict", list(Verdict))
def test_only_what_fresh_runs_had_to_confirm_is_taken_back(verdict: Verdict) -> None:
    judged = Judgement(verdict=verdict, reason="so", throughput=Comparison(verdict=verdict))
    found = cut_short(judged, "45 min", looked=False)
    taken_back = verdict is Verdict.REGRESSED
    assert found.verdict is (Verdict.INCONCLUSIVE if taken_back else verdict)
    assert found.throughput.verdict is found.verdict
    assert ("45 min" in found.reason) is (verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE})


def test_a_metric_that_looked_worse_is_taken_back_and_the_throughput_stays() -> None:
    judged = Judgement(
        verdict=Verdict.REGRESSED,
        reason="peak memory grew",
        throughput=Comparison(verdict=Verdict.PASSED),
        metrics={"peak_memory": Comparison(verdict=Verdict.REGRESSED)},
    )
    found = cut_short(judged, "45 min", looked=False)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.throughput.verdict is Verdict.PASSED
    assert found.metrics["peak_memory"].verdict is Verdict.INCONCLUSIVE


def test_what_is_slower_at_a_look_stays_regressed_and_says_that_nothing_confirmed_it() -> None:
    judged = Judgement(verdict=Verdict.REGRESSED, reason="40 % slower")
    found = cut_short(judged, "45 min", looked=True)
    assert found.verdict is Verdict.REGRESSED
    assert found.reason.startswith("40 % slower\nthe budget of 45 min was spent before")


def test_what_was_never_measured_is_open() -> None:
    found = never_measured("a-case", "45 min")
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.throughput == Comparison()
    assert "--dlperf-budget" in found.reason
