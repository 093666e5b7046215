"""Metrics that a marker gates: certain growth fails, counts fail from one run, alpha is shared."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Known
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.metric import Figure, StoredFigures
from pytest_dlperf.core.metrics import gates_of
from pytest_dlperf.core.verdict import KnownState, Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.budget import cut_short
from pytest_dlperf.judge.expected import with_known
from pytest_dlperf.judge.gates import unmoved_by_speed
from pytest_dlperf.judge.stats import family
from pytest_dlperf.judge.verdict import judge_pairs
from tests.helpers.judge_builders import around, baseline, case, measurement, session

pytestmark = pytest.mark.newest

RULE = Rule(family=24)


def measured(name: str, values: list[float], unit: str = "s", **fields: str) -> Measurement:
    found = measurement(around(100, runs=len(values)), **fields)
    runs = (
        replace(run, metrics={name: Figure(value=value, unit=unit)})
        for run, value in zip(found.runs, values, strict=True)
    )
    return replace(found, runs=tuple(runs))


def stored(name: str, values: list[float], unit: str = "s") -> Baseline:
    figures = StoredFigures(runs=tuple(values), unit=unit)
    levels = (99.5, 99.8, 100, 100.2, 100.5)
    return baseline(*(replace(session(around(v)), metrics={name: figures}) for v in levels))


def test_a_compile_that_takes_20_per_cent_longer_fails_with_the_throughput_certified() -> None:
    subject = case("1n8g", metrics=gates_of({"compile_seconds": "10%"}))
    now = measured("compile_seconds", around(12))
    judged = judge(subject, now, stored("compile_seconds", around(10)), RULE)
    assert judged.verdict is Verdict.REGRESSED
    assert judged.throughput.verdict is Verdict.PASSED
    assert judged.details[0].startswith("compile time changed by +20.0 % (10 s to 12 s;")
    same = measured("compile_seconds", around(10))
    assert judge(subject, same, stored("compile_seconds", around(10)), RULE).verdict is (
        Verdict.PASSED
    )


@pytest.mark.parametrize("problem", ["", "drift", "disturbed"])
@pytest.mark.parametrize(("now", "verdict"), [(3, Verdict.PASSED), (4, Verdict.REGRESSED)])
def test_one_more_graph_break_fails_from_one_run(now: int, verdict: Verdict, problem: str) -> None:
    subject = case("1n8g", metrics=gates_of(["graph_breaks"]))
    found = measured("graph_breaks", [now], unit="", problem=problem)
    judged = judge(subject, found, stored("graph_breaks", [3, 2, 3, 3, 3], unit=""), RULE)
    if verdict is Verdict.REGRESSED:
        assert judged.verdict is verdict
        assert judged.details[0].startswith("graph breaks: 3 to 4, and any change for the worse")
    else:
        assert judged.verdict is not Verdict.REGRESSED
        assert problem or judged.metrics["graph_breaks"].verdict is verdict


def test_a_metric_that_is_open_leaves_a_case_open() -> None:
    subject = case("1n8g", metrics=gates_of({"step_p95": "1%"}))
    judged = judge(subject, measured("step_p95", around(1)), stored("step_p95", around(1)), RULE)
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "neither certainly within its tolerance of 1.0 %" in judged.text


def test_a_metric_that_only_this_session_has_is_said_not_to_be_judged() -> None:
    subject = case("1n8g", metrics=gates_of(["compile_seconds"]))
    judged = judge(subject, measured("compile_seconds", [1.0] * 5), stored("other", [1.0]), RULE)
    assert "compile time is not judged, as no stored session has it" in judged.text
    assert "compile_seconds" not in judged.metrics


@pytest.mark.parametrize(
    ("name", "unit", "values", "says"),
    [
        ("other", "s", [1.0], "metric load is gated, and not every run has it"),
        ("load", "ms", [1.0], "more than one meaning"),
        ("load", "s", [0.0], "has a value of 0"),
    ],
)
def test_a_metric_that_cannot_be_compared_is_an_error(
    name: str, unit: str, values: list[float], says: str
) -> None:
    subject = case("1n8g", metrics=gates_of(["load"]))
    with pytest.raises(CaseError, match=says):
        judge(subject, measured(name, values, unit), stored("load", [1.0]), RULE)


def test_pairs_are_gated_on_the_same_metrics() -> None:
    subject = case("1n8g", metrics=gates_of({"graph_breaks": None}))
    now, before = (measured("graph_breaks", [n] * 5, unit="") for n in (1, 0))
    judged = judge_pairs(subject, now, before, RULE)
    assert judged.verdict is Verdict.REGRESSED
    # There is no baseline that could be accepted
    assert "--update-baselines" not in judged.text
    assert judge_pairs(subject, before, now, RULE).verdict is not Verdict.REGRESSED


@pytest.mark.parametrize("problem", ["disturbed", "drift"])
def test_a_count_that_is_worse_fails_pairs_whose_rates_are_not_judged(problem: str) -> None:
    subject = case("1n8g", metrics=gates_of({"graph_breaks": None}))
    now, before = (measured("graph_breaks", [n] * 5, "", problem=problem) for n in (1, 0))
    judged = judge_pairs(subject, now, before, RULE)
    assert judged.verdict is Verdict.REGRESSED
    assert set(judged.metrics) == {"graph_breaks"}


def test_a_metric_that_one_arm_alone_has_is_an_error() -> None:
    subject = case("1n8g", metrics=gates_of({"graph_breaks": None}))
    has, lacks = (measured(name, [1] * 5, unit="") for name in ("graph_breaks", "recompiles"))
    with pytest.raises(CaseError, match="only the runs of the other arm have it"):
        judge_pairs(subject, lacks, has, RULE)
    # A commit that adds a metric is compared in all else
    judged = judge_pairs(subject, has, lacks, RULE)
    assert judged.verdict is Verdict.PASSED
    assert judged.text.endswith("is not judged, as the other arm does not report it")


def test_a_program_that_begins_to_report_a_metric_of_its_own_is_compared_in_all_else() -> None:
    subject = case("1n8g", metrics=gates_of(["load"]))
    before = measurement(around(100))
    judged = judge_pairs(subject, measured("load", [1.0] * 5), before, RULE)
    assert judged.verdict is Verdict.PASSED
    with pytest.raises(CaseError, match="not every run has it"):
        judge_pairs(subject, before, measured("load", [1.0] * 5), RULE)


def test_a_metric_that_one_run_lacks_is_an_error() -> None:
    subject = case("1n8g", metrics=gates_of(["graph_breaks"]))
    now = measured("graph_breaks", [1] * 5, unit="")
    now = replace(now, runs=(*now.runs[:4], replace(now.runs[4], metrics={})))
    with pytest.raises(CaseError, match="not every run has it"):
        judge(subject, now, None, RULE)


def test_a_count_is_compared_with_the_newest_session_so_that_what_got_better_stays_so() -> None:
    subject = case("1n8g", metrics=gates_of(["graph_breaks"]))
    before = stored("graph_breaks", [3], unit="")
    better = replace(
        before.sessions[-1], metrics={"graph_breaks": StoredFigures(runs=(1.0,), unit="")}
    )
    before = replace(before, sessions=(*before.sessions[:-1], better))
    found = measured("graph_breaks", [3] * 5, unit="")
    assert judge(subject, found, before, RULE).verdict is Verdict.REGRESSED


@pytest.mark.parametrize(
    ("name", "unit", "now", "state"),
    [
        # A quarter longer is what a training at 80 % takes
        ("step_p95", "s", 1.25, KnownState.KNOWN),
        ("step_p95", "s", 1.6, None),
        ("graph_breaks", "", 2.0, None),
        ("reserved_memory", "bytes", 1.25, None),
    ],
)
def test_a_known_slowdown_excuses_what_takes_longer_by_as_much_and_nothing_else(
    name: str, unit: str, now: float, state: KnownState | None
) -> None:
    subject = case("1n8g", metrics=gates_of([name]))
    figures = measured(name, [now] * 5, unit)
    rates = measurement(around(80))
    runs = [replace(a, metrics=b.metrics) for a, b in zip(rates.runs, figures.runs, strict=True)]
    found = replace(rates, runs=tuple(runs))
    judged = judge(subject, found, stored(name, [1.0] * 5, unit), RULE)
    assert judged.throughput.verdict is Verdict.REGRESSED
    assert judged.metrics[name].verdict is Verdict.REGRESSED
    known = Known(change=-0.2, issue="#1", until="2999-01-01")
    fixed = unmoved_by_speed(subject, found)
    assert with_known(judged, known, date(2026, 1, 1), fixed).known is state


def test_a_count_that_is_worse_stays_regressed_where_the_budget_ends() -> None:
    subject = case("1n8g", metrics=gates_of(["graph_breaks"]))
    now = measured("graph_breaks", [4], unit="")
    judged = judge(subject, now, stored("graph_breaks", [3], unit=""), RULE)
    found = cut_short(judged, "45 min", looked=False)
    assert found.verdict is Verdict.REGRESSED
    assert found.reason.endswith("\nthe budget of 45 min is spent")


def test_the_parts_of_a_case_spend_its_error_rate_at_most() -> None:
    for asked in (0, 4):
        parts = [family.metric_rule(RULE, asked).alarm_share] * (3 + asked)
        assert family.throughput_rule(RULE).alarm_share + sum(parts) == pytest.approx(1)


@pytest.mark.once
def test_suites_of_unchanged_cases_with_four_metrics_alarm_as_rarely() -> None:
    """24 cases with four metrics each, at alpha 5 %: of 100 suites at most 11 may alarm.

    That is the 99.5 % point of a binomial count at 5 %. Noise: 3 % a session, 3 % a run.
    """
    names = ("compile_seconds", "time_to_first_step", "step_p95", "load")
    subject = case("1n8g", metrics=gates_of(dict.fromkeys(names, "20%")))
    rng = np.random.default_rng(5)

    def runs() -> list[float]:
        return [float(v) for v in np.exp(rng.normal(0, 0.03) + rng.normal(0, 0.03, 5))]

    alarmed = 0
    for _ in range(100):
        found = set()
        for _ in range(24):
            before = baseline(
                *(
                    replace(
                        session(around(100)),
                        metrics={n: StoredFigures(runs=tuple(runs()), unit="s") for n in names},
                    )
                    for _ in range(5)
                )
            )
            now = measurement(around(100))
            values = {name: runs() for name in names}
            figures = (
                {name: Figure(value=values[name][i], unit="s") for name in names} for i in range(5)
            )
            now = replace(
                now,
                runs=tuple(
                    replace(run, metrics=one) for run, one in zip(now.runs, figures, strict=True)
                ),
            )
            found.add(judge(subject, now, before, RULE).verdict)
        alarmed += Verdict.REGRESSED in found
    assert alarmed <= 11
