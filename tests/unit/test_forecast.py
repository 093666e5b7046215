"""How long a session may take: never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_dlperf.core.case import Case, Protocol
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.forecast import Forecast, span


def case(layout: str, **protocol: Any) -> Case:
    return Case(
        suite="net",
        framework="torch",
        workload="w:build",
        precision="fp32",
        batch_size_per_device=4,
        layout=Layout.parse(layout),
        protocol=Protocol(**protocol),
    )


def forecast(*cases: Case, seconds: dict[str, float], pairs: bool = False) -> Forecast:
    return Forecast.of(
        cases, lambda _: Rule(), lambda one: seconds.get(str(one.layout)), pairs=pairs
    )


def test_cases_runs_and_time() -> None:
    two = forecast(case("1n1c"), case("1n2c"), seconds={"1n1c": 120.0, "1n2c": 240.0})
    assert two.words() == "2 cases, 3 to 10 runs each, 18 to 60 min"
    assert two.count == 2


def test_pairs_are_two_runs() -> None:
    one = forecast(case("1n1c"), seconds={"1n1c": 10.0}, pairs=True)
    assert one.words() == "1 case, 3 to 10 pairs, 1 to 3 min"


def test_a_parent_that_was_not_selected_takes_time_and_is_no_case() -> None:
    one = forecast(case("1n2c"), seconds={"1n1c": 10.0, "1n2c": 10.0})
    assert one.words() == "1 case, 3 to 10 runs, 1 to 2 min"  # 3 + 3 to 10 + 5 runs
    assert one.count == 1


def test_what_was_never_measured_is_unknown() -> None:
    cases = case("1n1c", adaptive=False, runs=2), case("1n2c", adaptive=False, runs=2)
    unknown = forecast(*cases, seconds={})
    assert unknown.words() == (
        "2 cases, 2 runs each, time unknown: nothing of it was measured here before"
    )
    half = forecast(*cases, seconds={"1n1c": 10.0})
    assert half.words() == "2 cases, 2 runs each, 20 s for 1 of 2, others unknown"


def test_what_is_left_shrinks_and_is_learnt() -> None:
    one, two = case("1n1c"), case("1n2c")
    made = forecast(one, two, seconds={"1n1c": 10.0})
    assert made.left_s(without=one.id) is None
    assert made.left_s(without=two.id) == 30.0
    made.learn(two.id, 20.0)
    assert made.left_s(without=one.id) == 60.0
    made.ended(one.id)
    assert made.left_s(without=two.id) == 0.0


@pytest.mark.parametrize(
    ("low_s", "high_s", "words"),
    [
        (0.01, 0.02, "1 s"),
        (30, 90, "30 to 90 s"),
        (1080, 3600, "18 to 60 min"),
        (10, 600, "1 to 10 min"),
        (7200, 36000, "2.0 to 10.0 h"),
    ],
)
def test_a_span_of_time(low_s: float, high_s: float, words: str) -> None:
    assert span(low_s, high_s) == words
