"""The first line of every verdict: in 25 words what happened, how much, and what to type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.evidence import Kind
from pytest_dlperf.judge.two_stages import (
    decided_by_packages,
    decided_by_pairs,
    judgement_without_pairs,
    same_code_judgement,
)
from pytest_dlperf.judge.verdict import judge_pairs
from pytest_dlperf.judge.words.first_line import RED, WORDS, metric_in_brief
from tests.helpers.judge_builders import (
    CONDITIONS,
    around,
    baseline,
    case,
    judged_by,
    measurement,
    session,
)

ARM = "1a2b3c4"
#: Metrics beside the rate that each kind of evidence may have.
METRICS = {
    Kind.SESSIONS: ("anchor", "peak_memory", "speedup", "time_to_first_step"),
    Kind.PAIRS: ("peak_memory", "whole_window", "cpu_seconds", "time_to_first_step"),
}
ENVIRONMENT = ("torch 2.12.1+cu130 became 2.13.0+cu130", "driver 580.65.06 became 590.1", "a", "b")


def rate(verdict: Verdict, change: float = -0.1234) -> Comparison:
    return Comparison(
        now=100.0 * (1 + change), before=100.0, change=change,
        interval=(change - 0.0512, change + 0.0345), sees=0.0543, tolerance=0.05, verdict=verdict,
    )  # fmt: skip


def judgements(kind: Kind) -> Iterator[Judgement]:
    """Yield a judgement of each verdict, by the rate and by each metric beside it."""
    than = "stored" if kind is Kind.SESSIONS else "HEAD~1 (commit 1a2b3c4)"
    for verdict in (*GOOD, Verdict.REGRESSED, Verdict.INCONCLUSIVE):
        for change in (-0.1234,) if verdict is Verdict.REGRESSED else (-0.1234, 0.0, 0.1234):
            found = rate(verdict, change)
            yield judged_by(found, kind=kind, than=than)
            yield judged_by(replace(found, runs_needed=1000), kind=kind, than=than)
    for name in METRICS[kind]:
        for verdict in (*GOOD, Verdict.REGRESSED, Verdict.INCONCLUSIVE):
            # A speedup that fell is excused by a throughput that is certified
            beside = Verdict.INCONCLUSIVE if name == "speedup" else Verdict.PASSED
            metrics = {name: rate(verdict, 0.1234)}
            judged = judged_by(rate(beside), kind=kind, than=than, **metrics)
            assert (judged.verdict is Verdict.REGRESSED) is (verdict is Verdict.REGRESSED)
            yield judged


def refused() -> Iterator[Judgement]:
    """Yield what the judge says of measurements that cannot be compared, or are no steady ones."""
    of, stored = case("1n2g"), baseline(*(session(around(level)) for level in (99, 100, 101)))
    rule = Rule(tolerance=0.05)
    other = replace(CONDITIONS, launcher="mpi", data="real", threads_per_rank=99)
    yield judge(of, replace(measurement(around(90)), conditions=other), stored, rule)
    yield judge(of, measurement(around(90)), None, rule)
    for code in ("disturbed", "drift", "batch-unchecked"):
        problem = Problem(code=code, message="a problem is told in many words " * 9)
        found = replace(measurement(around(90)), problems=(problem,))
        yield judge(of, found, stored, rule)
        if code != "disturbed":  # it disturbs both arms
            yield judge_pairs(of, found, measurement(around(95)), rule)


def first(judgement: Judgement) -> str:
    return judgement.reason.partition("\n")[0]


def short(judgement: Judgement) -> str:
    line = first(judgement)
    assert len(line.split()) <= WORDS, f"{len(line.split())} words: {line}"
    return line


def compares(judgement: Judgement) -> str:
    """Return the first line, whose long sentence is the first detail."""
    line = short(judgement)
    assert "; 90 % interval" not in line
    assert "; 90 % interval" in judgement.details[0]
    assert not any("\n" in detail for detail in judgement.details)
    return line


def test_the_first_line_by_stored_sessions_and_of_an_ab():
    for stored in judgements(Kind.SESSIONS):
        line = compares(stored)
        if stored.verdict is Verdict.REGRESSED:
            assert "find what changed, or " in stored.reason
            assert ("--anchor" in stored.reason) is ("the anchor" in line)
    for paired in judgements(Kind.PAIRS):
        compares(paired)
        assert "accept it" not in paired.text
        if paired.verdict is Verdict.REGRESSED:
            assert paired.reason.endswith("find what changed")


@pytest.mark.parametrize("level", [60, 90, 97, 100, 120])
def test_the_first_line_of_what_was_measured(level: float):
    stored = baseline(*(session(around(level)) for level in (99, 100, 101)))
    compares(judge(case("1n2g"), measurement(around(level)), stored, Rule(tolerance=0.05)))


def test_the_first_line_of_what_is_not_judged():
    for judged in refused():
        assert judged.verdict in {Verdict.INCOMPARABLE, Verdict.UNSTEADY, Verdict.NO_BASELINE}
        line = short(judged)
        assert judged.reason == line
        assert "many words" not in line
        assert ("many words" in judged.text) is any(
            finding.code in {"disturbed", "unsteady", "work-unchecked"}
            for finding in judged.findings
        )


def test_the_first_line_of_both_stages_keeps_apart_what_each_saw():
    pairs = list(judgements(Kind.PAIRS))
    for stored in list(judgements(Kind.SESSIONS))[::3]:
        short(same_code_judgement(stored, against=ARM))
        short(judgement_without_pairs(stored, "why"))
        for one in pairs:
            for environment in ((), ENVIRONMENT):
                both = decided_by_pairs(
                    stored, one, against=ARM, environment=environment,
                    measured_by="--dlperf-against='torch==2.12.1+cu130'",
                )  # fmt: skip
                line = short(both)
                # What else than the rate is red says what it is
                other = metric_in_brief(stored.findings, RED)
                assert "stored" in line or (other and line.startswith(other))
                assert {*stored.details, *one.details} <= {*both.details}
                assert not any("\n" in detail for detail in both.details)
                if both.verdict is Verdict.REGRESSED and not environment:
                    assert f"side by side with {ARM}" in line
                    assert "accept it: --update-baselines" in both.reason
            short(
                decided_by_packages(
                    stored,
                    one,
                    one,
                    changed="torch 2.12.1 became 2.13.0",
                    environment=ENVIRONMENT,
                    undo="pip install torch==2.12.1",
                )
            )


@pytest.mark.parametrize(
    ("stored", "pairs", "line"),
    [
        (
            rate(Verdict.REGRESSED, -0.068),
            rate(Verdict.REGRESSED, -0.065),
            "6.8 % slower than stored; side by side with 1a2b3c4 6.5 % (3.0 to 11.6 %): "
            "regressed; find what changed, or accept it: --update-baselines --dlperf-reason=TEXT",
        ),
        (
            rate(Verdict.REGRESSED, -0.068),
            rate(Verdict.PASSED, 0.001),
            "6.8 % slower than stored; side by side with 1a2b3c4 0.1 % faster (-5.0 to +3.6 %): "
            "passed; the machine did the rest",
        ),
        (
            rate(Verdict.INCONCLUSIVE, -0.02),
            rate(Verdict.PASSED, -0.02),
            "2.0 % slower than stored; side by side with 1a2b3c4 2.0 % (-7.1 to +1.5 %): passed",
        ),
    ],
)
def test_sessions_and_pairs_are_told_apart(stored: Comparison, pairs: Comparison, line: str):
    sides = judged_by(stored), judged_by(pairs, kind=Kind.PAIRS, than=ARM)
    both = decided_by_pairs(*sides, against=ARM, environment=())
    assert both.reason == line
    assert both.details == (*sides[1].details, *sides[0].details)
    assert ["in 5 pairs of runs" in detail for detail in both.details] == [True, False]


def test_what_the_machine_did_is_no_slowdown_of_the_code():
    stored = judged_by(rate(Verdict.REGRESSED, -0.5))
    assert same_code_judgement(stored, against=ARM).reason == (
        "50.0 % slower than stored with the code and packages of 1a2b3c4: the machine or its "
        "settings did it; accept it: --update-baselines --dlperf-reason=TEXT"
    )
    fine = judged_by(rate(Verdict.PASSED, 0.0))
    assert same_code_judgement(fine, against=ARM).reason == (
        "as fast as stored with the code and packages of 1a2b3c4"
    )
