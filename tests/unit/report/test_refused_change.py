"""A change that was seen and not judged is shown, and no program takes it for a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pytest_dlperf.core.outcome import (
    Outcome,
    outcome_from_json,
    outcome_to_json,
)
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.report import benchmark_json, open_metrics, pull_request, terminal
from pytest_dlperf.report.page import session_page
from pytest_dlperf.session.terminal.test_report import put_outcome
from pytest_dlperf.store.history.record import record_of
from tests.helpers.report_builders import case, measured

FOUND = Comparison(
    now=90.0,
    before=100.0,
    change=-0.1,
    interval=(-0.12, -0.08),
    sees=0.03,
    tolerance=0.05,
    verdict=Verdict.REGRESSED,
    p_regressed=0.001,
    p_passed=0.9,
)
#: The peak memory grew, so that the case is red, and its throughput was refused.
REFUSED = FOUND.as_refused(Verdict.UNSTEADY)


def outcome(found: Comparison) -> Outcome:
    """Return a red outcome as another process has it, which knows no verdict of a throughput."""
    judged = Judgement(verdict=Verdict.REGRESSED, reason="so it is", throughput=found)
    return outcome_from_json(outcome_to_json(measured(case(), 90.0, judgement=judged)))


def of_benchmark(one: Outcome) -> list[Any]:
    figures = json.loads(benchmark_json.render([one]))["benchmarks"][0]["extra_info"]
    return [figures["change"], figures["sees"]]


def of_metrics(one: Outcome) -> list[Any]:
    lines = [line.split() for line in open_metrics.render([one]).splitlines()]
    found = {words[0].partition("{")[0]: float(words[-1]) for words in lines if words[0] != "#"}
    return [found.get("dlperf_change_ratio"), found.get("dlperf_sees_ratio")]


def of_junit(one: Outcome) -> list[Any]:
    report = pytest.TestReport("t.py::t", ("t.py", 1, "t"), {}, "passed", None, "call")
    put_outcome(report, one)
    found = dict(report.user_properties)
    assert ("dlperf_interval_low" in found) == ("dlperf_change" in found)
    return [found.get("dlperf_change"), found.get("dlperf_sees")]


@pytest.mark.parametrize("read", [of_benchmark, of_metrics, of_junit])
def test_programs_have_the_change_of_judged_comparisons_alone(
    read: Callable[[Outcome], list[Any]],
) -> None:
    assert read(outcome(FOUND)) == [-0.1, 0.03]
    assert read(outcome(REFUSED)) == [None, None]


def test_a_history_has_the_change_of_judged_comparisons_alone() -> None:
    assert record_of(outcome(FOUND), mode="gate").scalars["change"] == -0.1
    assert record_of(outcome(REFUSED), mode="gate").scalars["change"] is None


def test_metrics_have_no_rate_of_a_case_that_was_interrupted() -> None:
    assert "dlperf_throughput{" in open_metrics.render([outcome(FOUND)])
    ended = replace(outcome(REFUSED), interrupted=True)
    assert "dlperf_throughput{" not in open_metrics.render([ended])
    assert "dlperf_not_judged{" in open_metrics.render([ended])


@pytest.mark.parametrize(
    "shown",
    [
        lambda one: "\n".join(line.plain for line in terminal.render([one], width=160)),
        lambda one: pull_request.render([one]),
        lambda one: session_page.render([one]),
    ],
    ids=["terminal", "pull request", "page"],
)
def test_people_see_a_refused_change_in_brackets(shown: Callable[[Outcome], str]) -> None:
    assert "(-10.0 %)" not in shown(outcome(FOUND))
    assert "(-10.0 %)" in shown(outcome(REFUSED))


@pytest.mark.parametrize(
    ("verdict", "is_judged"), [(Verdict.PASSED, True), (Verdict.INCOMPARABLE, False)]
)
def test_a_file_of_before_has_a_refused_change_by_its_verdict(
    verdict: Verdict, is_judged: bool
) -> None:
    judged = Judgement(verdict=verdict, reason="so it is", throughput=FOUND)
    values = outcome_to_json(measured(case(), 90.0, judgement=judged))
    del values["judgement"]["refused"]
    assert outcome_from_json(values).judgement.throughput.is_judged is is_judged
