"""How often a case is looked at."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.cases.marker import expand
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.flow.looks import Look, Measured, until_decided

PASSED, REGRESSED, OPEN = Verdict.PASSED, Verdict.REGRESSED, Verdict.INCONCLUSIVE
#: It is looked at after 3, 5 and 9 runs.
[CASE] = expand(
    suite="net",
    workload="m:build",
    batch_size_per_device=1,
    layout="1n1c",
    runs=5,
    max_runs=9,
)


def looks(
    *found: tuple[Verdict, dict[str, bool]],
) -> tuple[list[tuple[int, Verdict | None]], Callable[[int, Judgement | None], Look]]:
    """Return a list of what each look was given, and the looks."""
    given: list[tuple[int, Verdict | None]] = []

    def look(wanted: int, judgement: Judgement | None) -> Look:
        verdict, ends = found[len(given)]
        given.append((wanted, judgement and judgement.verdict))
        measurement: Any = SimpleNamespace(runs=range(wanted))
        judged = Judgement(verdict=verdict, reason=f"look {len(given)}")
        return Look(Measured(measurement=measurement, judgement=judged), **ends)

    return given, look


def decided(look: Callable[[int, Judgement | None], Look], case: Case = CASE) -> Judgement:
    return until_decided(case, "1 min", look).judgement


@pytest.mark.parametrize(
    ("verdicts", "given"),
    [
        ([PASSED], [(3, None)]),
        ([REGRESSED, REGRESSED], [(3, None), (5, REGRESSED)]),
        ([REGRESSED, PASSED], [(3, None), (5, REGRESSED)]),
        ([OPEN, OPEN, OPEN], [(3, None), (5, OPEN), (9, OPEN)]),
    ],
)
def test_a_case_is_looked_at_until_it_is_decided(
    verdicts: list[Verdict], given: list[tuple[int, Verdict | None]]
):
    seen, look = looks(*((verdict, {}) for verdict in verdicts))
    assert decided(look).verdict is verdicts[-1]
    assert seen == given


def test_pairs_have_a_look_more():
    seen, look = looks((OPEN, {}), (OPEN, {}), (OPEN, {}), (PASSED, {}))
    assert until_decided(CASE, "1 min", look, in_pairs=True).judgement.verdict is PASSED
    assert [wanted for wanted, _ in seen] == [3, 5, 7, 9]


def test_the_last_look_is_the_last_also_where_the_verdict_is_open():
    seen, look = looks((OPEN, {"is_last": True}))
    assert decided(look).reason == "look 1"
    assert seen == [(3, None)]


def test_a_case_that_is_cut_short_says_that_the_budget_is_spent():
    seen, look = looks((OPEN, {}), (OPEN, {"is_cut_short": True}))
    assert decided(look).reason == "look 2\nthe budget of 1 min is spent"
    assert len(seen) == 2
