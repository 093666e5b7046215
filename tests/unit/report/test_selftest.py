"""What a self-test says of what its sessions found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.outcome import Against, Confirmation, Outcome
from pytest_dlperf.core.verdict import BAD, NOT_JUDGED, Comparison, Judgement, Verdict
from pytest_dlperf.report.selftest import (
    Answer,
    Asked,
    SessionResult,
    Step,
    exit_code,
    lines,
    pages,
)
from tests.helpers.report_builders import case, measured, unmeasured

CASE = case()
STORED = measured(CASE, 100.0, 101.0, update="created")
REMEDY = "; find what changed, or accept the new level"
NEVER = "pairs are excluded"


def of(verdict: str, reason: str = "", page: str = "p", **comparison: Any) -> SessionResult:
    """Return what a session says that is judged against the stored one."""
    found: Outcome = replace(
        measured(CASE, 50.0, inject=1.0),
        judgement=Judgement(
            verdict=Verdict(verdict),
            reason=(reason or f"because {verdict}") + REMEDY + "\nmore",
            throughput=Comparison(**comparison),
        ),
    )
    return SessionResult(outcome=found, page=Path(page))


def pairs(verdict: str, **values: Any) -> SessionResult:
    """Return what a session of pairs says."""
    result = of(verdict, **values)
    against = Against(name="same", kind="settings")
    return replace(result, outcome=replace(result.outcome, against=against))


def confirmed(verdict: str) -> SessionResult:
    """Return what a session says whose second stage ran pairs with the stored commit."""
    result = of(verdict)
    second = Confirmation(stored=result.outcome.judgement, pairs=result.outcome.judgement)
    return replace(result, outcome=replace(result.outcome, confirmation=second))


def asked(
    unchanged: SessionResult | None = None,
    slower: SessionResult | None = None,
    stored: Outcome = STORED,
    *,
    unchanged_pairs: SessionResult | None = None,
    slower_pairs: SessionResult | None = None,
    no_pairs: str = "",
) -> Asked:
    results = {
        Step.STORE: SessionResult(outcome=stored, page=Path("first")),
        Step.UNCHANGED: unchanged,
        Step.UNCHANGED_BY_PAIRS: unchanged_pairs,
        Step.SLOWER: slower,
        Step.SLOWER_BY_PAIRS: slower_pairs,
    }
    known = {step: result for step, result in results.items() if result is not None}
    return Asked(results=known, no_pairs=no_pairs)


PASSED, SLOW, OPEN = of("passed"), of("regressed"), of("incomparable")
SAME, SLOWER, UNDECIDED = pairs("passed"), pairs("regressed"), pairs("inconclusive")
DISTURBED = replace(STORED, judgement=OPEN.outcome.judgement)
SEES = asked(PASSED, SLOW)
BY_PAIRS = asked(stored=DISTURBED, unchanged_pairs=SAME, slower_pairs=SLOWER)
ERROR = asked(stored=unmeasured(CASE, Verdict.ERROR, "boom"))
NOT_RUN = asked(stored=unmeasured(CASE, Verdict.NOT_RUN, "paddle is not installed"))
REFUSED = asked(stored=measured(CASE, 1.0, verdict=Verdict.NO_BASELINE))
PROGRAM = asked(stored=replace(STORED, case=replace(CASE, workload="", command=("python", "x"))))


@pytest.mark.parametrize(
    ("known", "answer", "code", "strict"),
    [
        (SEES, Answer.SEES, 0, 0),
        (asked(of("improved"), SLOW), Answer.SEES, 0, 0),
        (asked(PASSED, confirmed("regressed")), Answer.SEES, 0, 0),
        # By pairs, whichever question stored sessions left open
        (BY_PAIRS, Answer.SEES, 0, 0),
        (asked(OPEN, unchanged_pairs=SAME, slower_pairs=SLOWER), Answer.SEES, 0, 0),
        (asked(SLOW, unchanged_pairs=SAME, slower_pairs=SLOWER), Answer.SEES, 0, 0),
        (asked(PASSED, OPEN, slower_pairs=SLOWER), Answer.SEES, 0, 0),
        (asked(PASSED, PASSED), Answer.BLIND, 1, 1),
        (asked(PASSED, OPEN, slower_pairs=SAME), Answer.BLIND, 1, 1),
        (asked(OPEN, unchanged_pairs=SAME, slower_pairs=pairs("improved")), Answer.BLIND, 1, 1),
        (asked(OPEN, unchanged_pairs=SLOWER), Answer.FALSE_ALARM, 1, 1),
        (asked(stored=DISTURBED, unchanged_pairs=SLOWER), Answer.FALSE_ALARM, 1, 1),
        (asked(confirmed("regressed")), Answer.FALSE_ALARM, 1, 1),
        (asked(SLOW, no_pairs=NEVER), Answer.FALSE_ALARM, 1, 1),
        # The session of pairs was not reached
        (asked(SLOW), Answer.OPEN, 1, 1),
        (asked(SLOW, unchanged_pairs=UNDECIDED), Answer.OPEN, 1, 1),
        (asked(PASSED, OPEN, slower_pairs=UNDECIDED), Answer.OPEN, 1, 1),
        (asked(OPEN, no_pairs=NEVER), Answer.OPEN, 1, 1),
        (asked(stored=DISTURBED, no_pairs=NEVER), Answer.OPEN, 1, 1),
        (asked(PASSED), Answer.OPEN, 1, 1),
        (asked(of("error")), Answer.ERROR, 1, 1),
        (asked(OPEN, unchanged_pairs=pairs("error")), Answer.ERROR, 1, 1),
        (ERROR, Answer.ERROR, 1, 1),
        (REFUSED, Answer.ERROR, 1, 1),
        (NOT_RUN, Answer.NOT_ASKED, 1, 1),
        (PROGRAM, Answer.NOT_ASKED, 1, 1),
    ],
)
def test_the_answer_and_the_exit_code(
    known: Asked, answer: Answer, code: int, strict: int
) -> None:
    assert known.answer is answer
    assert exit_code([known], BAD) == code
    assert exit_code([known], BAD | NOT_JUDGED) == strict


@pytest.mark.parametrize(
    ("known", "step"),
    [
        (asked(), Step.UNCHANGED),
        (asked(PASSED), Step.SLOWER),
        (SEES, None),
        (asked(PASSED, PASSED), None),
        # What stored sessions leave open goes on to pairs, and stays there
        (asked(stored=DISTURBED), Step.UNCHANGED_BY_PAIRS),
        (asked(OPEN), Step.UNCHANGED_BY_PAIRS),
        (asked(SLOW), Step.UNCHANGED_BY_PAIRS),
        (asked(OPEN, unchanged_pairs=SAME), Step.SLOWER_BY_PAIRS),
        (asked(PASSED, OPEN), Step.SLOWER_BY_PAIRS),
        (BY_PAIRS, None),
        # Pairs are asked once, those of the second stage as well
        (asked(OPEN, unchanged_pairs=UNDECIDED), None),
        (asked(PASSED, OPEN, slower_pairs=UNDECIDED), None),
        (asked(PASSED, confirmed("inconclusive")), None),
        (asked(confirmed("unsteady")), None),
        (asked(stored=DISTURBED, no_pairs=NEVER), None),
        (asked(OPEN, no_pairs=NEVER), None),
        (asked(PASSED, OPEN, no_pairs=NEVER), None),
        (asked(PASSED, no_pairs=NEVER), Step.SLOWER),
        (asked(of("error")), None),
        (ERROR, None),
        (REFUSED, None),
        (NOT_RUN, None),
        (PROGRAM, None),
    ],
)
def test_the_session_that_a_case_needs_next(known: Asked, step: Step | None) -> None:
    assert known.next_step is step


@pytest.mark.parametrize(
    ("other", "code", "strict"),
    [
        (NOT_RUN, 0, 1),
        (PROGRAM, 0, 0),
        (asked(OPEN, no_pairs=NEVER), 0, 1),
        (asked(stored=DISTURBED, no_pairs=NEVER), 0, 1),
        (asked(PASSED, OPEN, slower_pairs=pairs("unsteady")), 0, 1),
        (asked(PASSED), 0, 1),
        (asked(SLOW), 1, 1),
        (asked(OPEN, unchanged_pairs=SLOWER), 1, 1),
        (asked(PASSED, PASSED), 1, 1),
        (ERROR, 1, 1),
    ],
)
def test_what_stays_open_fails_only_where_an_ordinary_session_would(
    other: Asked, code: int, strict: int
) -> None:
    assert exit_code([SEES, other], BAD) == code
    assert exit_code([SEES, other], BAD | NOT_JUDGED) == strict


def told(known: Asked, share: float = 1.0) -> str:
    return "\n".join(lines([known], share))


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


def test_a_case_that_is_seen_by_pairs() -> None:
    """A baseline that was disturbed is not compared with."""
    assert lines([BY_PAIRS], 0.2)[:-2] == [
        f"{CASE.id}: yes",
        "  stored: incomparable: because incomparable",
        "  unchanged, by pairs: passed: because passed",
        "  slower, by pairs: regressed: because regressed",
        "  the gate sees steps that take 20 % longer here, by pairs",
    ]
    assert "longer here, by pairs" in told(asked(PASSED, confirmed("regressed")))


def test_a_false_alarm_that_pairs_do_not_confirm_is_named() -> None:
    assert lines([asked(SLOW, unchanged_pairs=SAME, slower_pairs=SLOWER)], 1.0)[:-2] == [
        f"{CASE.id}: yes",
        "  stored: 100.5 samples/s, 2 runs",
        "  unchanged: regressed (a FALSE ALARM): because regressed",
        "  unchanged, by pairs: passed: because passed",
        "  slower, by pairs: regressed: because regressed",
        "  the gate sees steps that take 100 % longer here, by pairs; pairs did not confirm the "
        "FALSE ALARM of the stored session",
    ]


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (
            asked(PASSED, of("passed", tolerance=0.6)),
            "does NOT see steps that take 100 % longer here: they were certified within the "
            "tolerance of 60 %; lower the tolerance",
        ),
        (asked(PASSED, of("passed")), "they were certified; lower the tolerance"),
        (
            asked(PASSED, OPEN, slower_pairs=SAME),
            "they were certified, by pairs; lower the tolerance",
        ),
        (
            asked(PASSED, pairs("inconclusive", sees=0.6)),
            "can see here is 60.0 % (steps that take 150 % longer); give it more runs "
            "(--dlperf-runs), or ask for --dlperf-selftest=150%",
        ),
        (
            asked(PASSED, OPEN, slower_pairs=pairs("inconclusive", sees=0.2)),
            "is 20.0 % (steps that take 25 % longer); give it more runs (--dlperf-runs)",
        ),
        (
            asked(OPEN, unchanged_pairs=pairs("inconclusive", sees=0.2)),
            "no answer: its runs differ too much; give more",
        ),
        (asked(PASSED, UNDECIDED), "no answer: its runs differ too much; give more"),
        (asked(PASSED, pairs("unsteady")), "no answer: its runs differ too much; give a tol"),
        (
            asked(stored=DISTURBED, no_pairs=NEVER),
            "no answer: its runs could not be compared, as the line above says; pairs are excl",
        ),
        (asked(OPEN, no_pairs=NEVER), "as the line above says; pairs are excluded"),
        (asked(PASSED), "no answer: a session ended without a verdict on it"),
        (asked(stored=DISTURBED), "no answer: a session ended without a verdict on it"),
        (asked(SLOW), "no answer: the unchanged one was called slower, and the session of pairs"),
        (asked(SLOW, no_pairs=NEVER), "regressed: the machine varies more between sessions than"),
        (asked(OPEN, unchanged_pairs=SLOWER), "was regressed, by pairs: --dlperf-alpha allows"),
        (PROGRAM, "a program of its own, whose steps cannot be made longer"),
        (ERROR, "boom"),
    ],
)
def test_the_sentence_says_what_to_do(known: Asked, words: str) -> None:
    assert words in told(known)


def test_every_verdict_that_leaves_a_case_open_has_words() -> None:
    for verdict in NOT_JUDGED:
        assert "no answer: " in told(asked(of(verdict.value), no_pairs=NEVER))
        assert "no answer: " in told(asked(OPEN, unchanged_pairs=pairs(verdict.value)))


def test_the_page_of_a_case_is_that_of_its_last_session() -> None:
    first = asked(of("passed", page="u"), of("regressed", page="s"))
    second = asked(of("passed", page="u"), OPEN, slower_pairs=pairs("regressed", page="t"))
    third = asked(of("error", page="u"))
    assert pages([first, second, first, third, ERROR]) == [
        Path("s"), Path("t"), Path("u"), Path("first"),
    ]  # fmt: skip


def test_nothing_in_an_id_or_a_sentence_steers_the_terminal() -> None:
    text = told(asked(of("passed", reason="\x1b[31mred"), SLOW))
    assert "\x1b" not in text
