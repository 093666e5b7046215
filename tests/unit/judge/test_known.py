"""A slowdown that is known."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from pytest_dlperf.core.case import Known
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.verdict import Comparison, Judgement, KnownState, Verdict
from pytest_dlperf.judge.expected import with_known
from tests.helpers.judge_builders import judged_by

KNOWN = Known.parse({"issue": "#123", "until": "2027-01-31", "change": "-4%"})
BEFORE, AFTER = date(2027, 1, 31), date(2027, 2, 1)


def compared(verdict: Verdict, low: float, high: float) -> Comparison:
    change = (low + high) / 2
    return Comparison(
        now=96.0,
        before=100.0,
        change=change,
        interval=(low, high),
        tolerance=0.03,
        verdict=verdict,
    )


def judgement(verdict: Verdict, low: float, high: float, **metrics: Comparison) -> Judgement:
    if verdict is Verdict.INCOMPARABLE:
        judged = judged_by(compared(Verdict.REGRESSED, low, high), problem="disturbed")
    else:
        judged = judged_by(compared(verdict, low, high), **metrics)
    assert judged.verdict is verdict
    return judged


@pytest.mark.parametrize(
    ("verdict", "interval", "today", "state"),
    [
        (Verdict.REGRESSED, (-0.05, -0.03), BEFORE, KnownState.KNOWN),
        (Verdict.REGRESSED, (-0.03, -0.02), BEFORE, KnownState.KNOWN),
        (Verdict.REGRESSED, (-0.05, -0.03), AFTER, KnownState.EXPIRED),
        (Verdict.REGRESSED, (-0.09, -0.05), BEFORE, KnownState.WORSE),
        (Verdict.PASSED, (-0.01, 0.01), BEFORE, KnownState.GONE),
        (Verdict.PASSED, (-0.01, 0.01), AFTER, KnownState.GONE),
        (Verdict.IMPROVED, (0.02, 0.03), BEFORE, KnownState.GONE),
        (Verdict.PASSED, (-0.05, 0.01), BEFORE, None),
        (Verdict.INCONCLUSIVE, (-0.05, 0.01), BEFORE, None),
        (Verdict.INCOMPARABLE, (-0.05, -0.03), BEFORE, None),
    ],
)
def test_it_is_let_pass_as_long_as_it_is_what_it_was_said_to_be(
    verdict: Verdict, interval: tuple[float, float], today: date, state: KnownState | None
) -> None:
    judged = judgement(verdict, *interval)
    found = with_known(judged, KNOWN, today)
    assert found.known is state
    assert found.verdict is verdict
    assert ("#123" in found.reason) is (state is not None)
    assert found.reason.endswith(judged.reason)
    assert found.details == judged.details


SLOW = (Verdict.REGRESSED, -0.05, -0.03)


@pytest.mark.parametrize(
    ("name", "interval", "state"),
    [
        ("peak_memory", (0.4, 0.6), None),
        # What the slowdown itself takes off the speedup
        ("speedup", (-0.06, -0.03), KnownState.KNOWN),
        ("speedup", (-0.12, -0.08), None),
        # No session with the slowdown is stored
        ("anchor", (-0.08, -0.05), None),
    ],
)
def test_a_known_slowdown_accounts_for_no_other_regression(
    name: str, interval: tuple[float, float], state: KnownState | None
) -> None:
    other = compared(Verdict.REGRESSED, *interval)
    found = with_known(judgement(*SLOW, **{name: other}), KNOWN, BEFORE)
    assert (found.verdict, found.known) == (Verdict.REGRESSED, state)
    assert ("does not explain that" in found.reason) is (state is None)
    words = {"peak_memory": "memory grew", "speedup": "speedup fell", "anchor": "than the anchor"}
    assert (words[name] in found.reason) is (state is None)


@pytest.mark.parametrize(
    ("throughput", "state"),
    [
        ((Verdict.PASSED, -0.01, 0.01), KnownState.GONE),
        ((Verdict.IMPROVED, 0.02, 0.03), KnownState.GONE),
        ((Verdict.PASSED, -0.05, 0.01), None),
        ((Verdict.INCONCLUSIVE, -0.05, 0.01), None),
    ],
)
def test_what_another_metric_did_is_not_known(
    throughput: tuple[Verdict, float, float], state: KnownState | None
) -> None:
    memory = compared(Verdict.REGRESSED, 0.4, 0.6)
    judged = judged_by(compared(*throughput), peak_memory=memory)
    found = with_known(judged, KNOWN, BEFORE)
    assert (found.verdict, found.known) == (Verdict.REGRESSED, state)
    assert found.reason.startswith("#123 (4.0 % slower) is ")
    assert judged.reason.startswith("peak memory grew by 50.0 %; find what changed")
    assert found.reason.endswith(f"\n{judged.reason}")


def test_a_case_without_one_is_left_alone() -> None:
    judged = judgement(Verdict.REGRESSED, -0.05, -0.03)
    assert with_known(judged, None, BEFORE) == judged


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"issue": "#1", "change": "-4%"}, "give issue, until and change"),
        ({"issue": "#1", "until": "soon", "change": "-4%"}, "until 'soon' is not a date"),
        ({"issue": "", "until": "2027-01-31", "change": "-4%"}, "issue is empty"),
        ({"issue": "#1", "until": "2027-01-31", "change": "4%"}, "is not a slowdown"),
        ({"issue": "#1", "until": "2027-01-31", "change": "-4"}, "write 4% instead"),
        ({"issue": "#1", "until": "2027-01-31", "change": "-100%"}, "between -100 % and 0"),
        ("-4%", "give issue, until and change"),
    ],
)
def test_what_cannot_be_meant(value: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        Known.parse(value)
    assert words in str(caught.value)


def test_a_slowdown_that_is_no_longer_declared_is_not_known() -> None:
    known = with_known(judgement(Verdict.REGRESSED, -0.06, -0.03), KNOWN, BEFORE)
    assert known.known is KnownState.KNOWN
    undeclared = with_known(known, None, BEFORE)
    assert undeclared.known is None
    assert "known" not in undeclared.reason
