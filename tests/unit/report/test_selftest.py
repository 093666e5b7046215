"""What a self-test says of what its sessions found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import BAD, NOT_JUDGED, Comparison, Judgement, Verdict
from pytest_dlperf.report.selftest import Answer, Asked, Try, exit_code, lines, pages
from tests.helpers.report_builders import case, measured, unmeasured

CASE = case()
STORED = measured(CASE, 100.0, 101.0, update="created")
REMEDY = "; find what changed, or accept the new level"


def of(verdict: str, reason: str = "", page: str = "p", **comparison: Any) -> Try:
    found: Outcome = replace(
        measured(CASE, 50.0, inject=1.0),
        judgement=Judgement(
            verdict=Verdict(verdict),
            reason=(reason or f"because {verdict}") + REMEDY + "\nmore",
            throughput=Comparison(**comparison),
        ),
    )
    return Try(outcome=found, page=Path(page))


def asked(unchanged: list[Try], slower: list[Try], stored: Outcome = STORED) -> Asked:
    store = [Try(outcome=stored, page=Path("first"))]
    return Asked(store=store, unchanged=unchanged, slower=slower)


PASSED, SLOW, OPEN = of("passed"), of("regressed"), of("incomparable")
SEES = asked([PASSED], [SLOW])
ERROR = asked([], [], unmeasured(CASE, Verdict.ERROR, "boom"))
NOT_RUN = asked([], [], unmeasured(CASE, Verdict.NOT_RUN, "paddle is not installed"))
REFUSED = asked([], [], measured(CASE, 1.0, verdict=Verdict.NO_BASELINE))
PROGRAM = asked(
    [], [], replace(STORED, case=replace(CASE, workload="", command=("python", "x.py")))
)


@pytest.mark.parametrize(
    ("found", "answer", "code", "strict"),
    [
        (SEES, Answer.SEES, 0, 0),
        (asked([of("improved")], [SLOW]), Answer.SEES, 0, 0),
        (asked([OPEN, SLOW, PASSED], [OPEN, SLOW]), Answer.SEES, 0, 0),
        (asked([PASSED], [PASSED]), Answer.BLIND, 1, 1),
        (asked([PASSED], [OPEN, of("improved")]), Answer.BLIND, 1, 1),
        (asked([SLOW] * 3, []), Answer.FALSE_ALARM, 1, 1),
        (asked([SLOW, SLOW, OPEN], [SLOW]), Answer.OPEN, 1, 1),
        (asked([OPEN] * 3, [SLOW]), Answer.OPEN, 1, 1),
        (asked([PASSED], [of("inconclusive")] * 3), Answer.OPEN, 1, 1),
        (asked([PASSED], []), Answer.OPEN, 1, 1),
        (asked([of("error")], []), Answer.ERROR, 1, 1),
        (ERROR, Answer.ERROR, 1, 1),
        (REFUSED, Answer.ERROR, 1, 1),
        (NOT_RUN, Answer.NOT_ASKED, 1, 1),
        (PROGRAM, Answer.NOT_ASKED, 1, 1),
    ],
)
def test_the_answer_and_the_exit_code(
    found: Asked, answer: Answer, code: int, strict: int
) -> None:
    assert found.answer is answer
    assert exit_code([found], BAD) == code
    assert exit_code([found], BAD | NOT_JUDGED) == strict


@pytest.mark.parametrize(
    ("other", "code", "strict"),
    [
        (NOT_RUN, 0, 1),
        (PROGRAM, 0, 0),
        (asked([OPEN] * 3, [SLOW]), 0, 1),
        (asked([PASSED], [of("unsteady")] * 3), 0, 1),
        (asked([SLOW] * 3, []), 1, 1),
        (asked([PASSED], [PASSED]), 1, 1),
        (ERROR, 1, 1),
    ],
)
def test_what_stays_open_fails_only_where_an_ordinary_session_would(
    other: Asked, code: int, strict: int
) -> None:
    assert exit_code([SEES, other], BAD) == code
    assert exit_code([SEES, other], BAD | NOT_JUDGED) == strict


def test_a_baseline_that_was_disturbed_is_not_compared_with() -> None:
    disturbed = Try(outcome=replace(STORED, judgement=OPEN.outcome.judgement), page=Path("first"))
    kept = Try(outcome=STORED, page=Path("second"))
    again = Asked(store=[disturbed, kept], unchanged=[PASSED], slower=[SLOW])
    assert again.answer is Answer.SEES
    assert "stored: 100.5 samples/s, 2 runs at try 2 of 3\n" in told(again)
    assert "try 1 was incomparable: because incomparable" in told(again)
    never = Asked(store=[disturbed] * 3)
    assert never.answer is Answer.OPEN
    assert "stored: incomparable in try 3 of 3, too: because incomparable" in told(never)
    assert "no answer: the machine was disturbed" in told(never)
    assert (exit_code([SEES, never], BAD), exit_code([SEES, never], NOT_JUDGED)) == (0, 1)


def told(found: Asked, share: float = 1.0) -> str:
    return "\n".join(lines([found], share))


def test_a_case_that_is_seen() -> None:
    assert lines([SEES, NOT_RUN], 0.2) == [
        f"{CASE.id}: yes",
        "  stored: 100.5 samples/s, 2 runs",
        "  unchanged: passed: because passed",
        "  slower: regressed: because regressed",
        "  the gate sees steps that take 20 % longer here",
        f"{CASE.id}: not asked",
        "  paddle is not installed",
        "",
        "does the gate see steps that take 20 % longer, in 2 cases: 1 yes, 1 not asked",
    ]


def test_tries_are_counted_and_a_false_alarm_is_named() -> None:
    text = told(asked([OPEN, SLOW, PASSED], [OPEN, SLOW]))
    assert "unchanged: passed at try 3 of 3: because passed" in text
    assert "try 1 was incomparable: because incomparable" in text
    assert "try 2 was regressed (a FALSE ALARM): because regressed" in text
    assert "slower: regressed at try 2 of 3" in text
    assert "the gate sees steps that take 100 % longer here; 1 FALSE ALARM before that" in text


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            asked([PASSED], [of("passed", tolerance=0.6)]),
            "does NOT see steps that take 100 % longer here: they were certified within the "
            "tolerance of 60 %; lower the tolerance",
        ),
        (asked([PASSED], [of("passed")]), "they were certified; lower the tolerance"),
        (
            asked([PASSED], [of("inconclusive", sees=0.6)]),
            "can see here is 60.0 % (steps that take 150 % longer); give it more runs "
            "(--dlperf-runs), or ask for --dlperf-selftest=150%",
        ),
        (
            asked([PASSED], [of("inconclusive", sees=0.2)]),
            "is 20.0 % (steps that take 25 % longer); give it more runs (--dlperf-runs)",
        ),
        (asked([PASSED], [of("inconclusive")]), "no answer: its runs differ too much; give more"),
        (asked([PASSED], [of("unsteady")]), "no answer: its runs differ too much; give a tol"),
        (asked([OPEN], [SLOW]), "no answer: the machine was disturbed or changed; close what"),
        (asked([PASSED], []), "no answer: a session ended without a verdict on it"),
        (asked([SLOW] * 3, []), "regressed in all 3 tries: the machine varies more between"),
        (PROGRAM, "a program of its own, whose steps cannot be made longer"),
        (ERROR, "boom"),
    ],
)
def test_the_sentence_says_what_to_do(found: Asked, words: str) -> None:
    assert words in told(found)


def test_every_verdict_that_leaves_a_case_open_has_words() -> None:
    for verdict in NOT_JUDGED:
        assert "no answer: " in told(asked([of(verdict.value)] * 3, []))


def test_the_page_of_a_case_is_that_of_its_last_session() -> None:
    first = asked([of("passed", page="u")], [of("regressed", page="s")])
    second = asked([of("passed", page="u")], [of("unsteady", page="s"), of("regressed", page="t")])
    third = asked([of("error", page="u")], [])
    assert pages([first, second, first, third, ERROR]) == [
        Path("s"), Path("t"), Path("u"), Path("first"),
    ]  # fmt: skip


def test_nothing_in_an_id_or_a_sentence_steers_the_terminal() -> None:
    text = told(asked([of("passed", reason="\x1b[31mred")], [SLOW]))
    assert "\x1b" not in text
