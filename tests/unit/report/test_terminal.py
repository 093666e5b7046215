"""The table in the terminal."""

from __future__ import annotations

from report_builders import case, measured

from pytest_dlperf.core.against import Against
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.report import terminal


def row(outcome: Outcome) -> list[str]:
    lines = terminal.render([outcome], lambda _: "")
    return lines[1].split()


def test_rate_and_baseline_of_pairs_are_of_one_estimator_and_differ_by_the_change() -> None:
    found = Comparison(now=98.0, before=100.0, change=-0.02, interval=(-0.03, -0.01), sees=0.01)
    judged = Judgement(verdict=Verdict.REGRESSED, reason="slower", throughput=found)
    stored = measured(case(), 101.0, judgement=judged)
    pairs = measured(case(), 101.0, judgement=judged, against=Against(name="v1", kind="ref"))
    assert row(pairs)[1:5] == ["98.00", "samples/s", "100.0", "-2.0"]
    assert row(stored)[1:5] == ["101.0", "samples/s", "100.0", "-2.0"]
    open_ = measured(case(), 101.0, against=Against(name="v1", kind="ref"))
    assert row(open_)[1:4] == ["101.0", "samples/s", "--"]
