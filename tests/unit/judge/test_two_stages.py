"""Which cases stored sessions pass, and which go on to pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from pytest_dlperf.core.verdict import Comparison, Judgement, Rule, Verdict
from pytest_dlperf.judge import judge
from pytest_dlperf.judge.evidence import Kind
from pytest_dlperf.judge.two_stages import (
    decided_by_packages,
    decided_by_pairs,
    other_sides,
    rule_of_a_stage,
    same_code_judgement,
)
from pytest_dlperf.judge.verdict import judge_pairs, plain_judgement
from tests.helpers.judge_builders import (
    around,
    baseline,
    case,
    judged_by,
    measurement,
    published,
    session,
)

GPU = case("1n2g")
RULE = Rule(tolerance=0.05)


def verdict_and_need(levels: list[float], now: float, rule: Rule = RULE) -> tuple[Verdict, bool]:
    """Return what stored sessions of these levels say, and whether pairs are to decide."""
    before = baseline(*(session(around(level)) for level in levels))
    found = measurement(around(now))
    judged = judge(GPU, found, before, rule)
    return judged.verdict, bool(other_sides(GPU, found, judged, before, rule))


@pytest.mark.parametrize(("sessions", "goes_on"), [(1, True), (4, True), (5, False), (10, False)])
def test_fewer_than_five_stored_sessions_pass_no_case(sessions: int, goes_on: bool) -> None:
    levels = [99.8, 100.2, 100.0, 100.1, 99.9, 100.0, 99.9, 100.1, 100.2, 99.8]
    assert verdict_and_need(levels[:sessions], 100.0) == (Verdict.PASSED, goes_on)


def test_sessions_that_differ_pass_a_case_by_their_own_spread() -> None:
    """The judge believes a quiet prior as well, which is no reason to pass."""
    levels = [97.0, 103.0, 99.0, 101.5, 98.0, 102.0]
    assert verdict_and_need(levels, 101.0) == (Verdict.PASSED, True)
    assert verdict_and_need(levels, 106.0) == (Verdict.PASSED, False)
    assert verdict_and_need(levels, 101.0, Rule(tolerance=0.2)) == (Verdict.PASSED, False)


def test_what_is_faster_than_its_stored_sessions_may_be_slower_code_on_a_faster_machine() -> None:
    levels = [99.8, 100.2, 100.0, 100.1, 99.9]
    assert verdict_and_need(levels, 105.0) == (Verdict.IMPROVED, True)
    assert verdict_and_need(levels, 98.5) == (Verdict.PASSED, True), "or on one faster by less"


def test_what_stored_sessions_do_not_pass_goes_on() -> None:
    assert verdict_and_need([100.0] * 10, 90.0) == (Verdict.REGRESSED, True)
    assert verdict_and_need([100.0] * 10, 96.0, replace(RULE, family=24)) == (
        Verdict.INCONCLUSIVE,
        True,
    )


def test_published_numbers_and_other_conditions_are_no_question_to_pairs() -> None:
    found = measurement(around(90.0))
    for before in (None, published(100.0)):
        judged = judge(GPU, found, before, RULE)
        assert not other_sides(GPU, found, judged, before, RULE)
    before = baseline(session(around(100.0)))
    other = replace(found, conditions=replace(found.conditions, dtype="bfloat16"))
    judged = judge(GPU, other, before, RULE)
    assert judged.verdict is Verdict.INCOMPARABLE
    assert not other_sides(GPU, other, judged, before, RULE)


def test_each_stage_has_half_of_the_error_rate_of_a_certificate() -> None:
    """Pairs that one stage of 5 % would pass; an alarm has its whole rate."""
    rates = [98.0, 99.5, 101.0, 97.5, 100.5], [100.0] * 5
    arms = measurement(rates[0]), measurement(rates[1])
    alone = judge_pairs(GPU, *arms, Rule(tolerance=0.03))
    p_passed = alone.throughput.p_passed
    assert p_passed is not None
    assert 0.3 * 0.025 < p_passed < 0.3 * 0.05, "four looks share it"
    assert alone.verdict is Verdict.PASSED
    paired = judge_pairs(GPU, *arms, rule_of_a_stage(Rule(tolerance=0.03)))
    assert paired.verdict is Verdict.INCONCLUSIVE
    assert paired.throughput.sees == alone.throughput.sees


#: What leaves a rate without a verdict.
PROBLEMS: Final = {Verdict.INCOMPARABLE: "disturbed", Verdict.UNSTEADY: "drift"}


def rate(verdict: Verdict, change: float) -> Comparison:
    ends = (change - 0.01, change + 0.01)
    return Comparison(
        now=100 * (1 + change), before=100.0, change=change, interval=ends, tolerance=0.05,
        verdict=verdict,
    )  # fmt: skip


def by_sessions(verdict: Verdict, change: float) -> Judgement:
    seen = Verdict.INCONCLUSIVE if verdict in PROBLEMS else verdict
    judged = judged_by(rate(seen, change), problem=PROBLEMS.get(verdict, ""))
    assert judged.verdict is verdict
    return judged


def by_pairs_with(problem: str) -> Judgement:
    undecided = rate(Verdict.INCONCLUSIVE, -0.03)
    return judged_by(undecided, kind=Kind.PAIRS, than="1a2b3c4", problem=problem)


def by_pairs(verdict: Verdict, change: float) -> Judgement:
    judged = judged_by(rate(verdict, change), kind=Kind.PAIRS, than="1a2b3c4")
    assert judged.verdict is verdict
    return judged


def lines_of(*judgements: Judgement) -> set[str]:
    """Return what each stage says on demand: its sentence, or its only line."""
    return {line for one in judgements for line in one.details or (one.reason,)}


STORED = by_sessions(Verdict.REGRESSED, -0.08)
#: No pair was run, as no file differs.
SAME = plain_judgement(Verdict.PASSED, "no file that ranks import differs")
TORCH = "torch 2.12.1 became 2.13.0"
DRIVER = "driver 550 became 560"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (by_pairs(Verdict.PASSED, 0.001), "the code is not the cause (side by side +0.1 %)"),
        (SAME, "the code is the same"),
    ],
)
def test_a_changed_environment_is_kept_apart_from_the_code(code: Judgement, words: str) -> None:
    found = decided_by_pairs(
        STORED, code, against="1a2b3c4", environment=(TORCH,),
        measured_by="--dlperf-against='torch==2.12.1'",
    )  # fmt: skip
    assert (found.verdict, found.throughput) == (STORED.verdict, STORED.throughput)
    first = found.reason.partition("\n")[0]
    assert first.startswith(f"8.0 % slower than stored; {words}; {TORCH}")
    assert "--dlperf-against='torch==2.12.1' measures that" in found.reason
    assert lines_of(STORED, code) == {*found.details}


def test_pairs_that_cannot_be_trusted_say_what_to_do_and_no_reason_that_is_not_theirs() -> None:
    unsteady = by_pairs_with(problem="clocks-disagree")
    found = decided_by_pairs(STORED, unsteady, against="1a2b3c4", environment=())
    assert found.verdict is Verdict.UNSTEADY
    first, remedy, *_ = found.reason.split("\n")
    assert first.endswith(": unsteady")
    assert remedy == "look at the records of its pairs, and measure again"
    assert "it was so" in found.text


def test_what_is_not_known_of_the_environment_is_no_reason_to_pass_a_slowdown() -> None:
    """Neither to fail it: the code is not slower, and nothing shows what else ran."""
    code, unknown = by_pairs(Verdict.PASSED, 0.001), "its packages then or now are not recorded"
    seen = decided_by_pairs(STORED, code, against="1a2b3c4", environment=(), unknown=unknown)
    assert seen.verdict is Verdict.INCOMPARABLE
    assert not seen.throughput.is_judged
    assert seen.reason.startswith("8.0 % slower than stored; the code is not the cause (side by ")
    assert unknown in seen.reason
    # What stored sessions leave open, pairs decide all the same
    for verdict in (Verdict.INCONCLUSIVE, Verdict.INCOMPARABLE, Verdict.UNSTEADY):
        stored = by_sessions(verdict, -0.02)
        both = decided_by_pairs(stored, code, against="1a", environment=(), unknown=unknown)
        assert both.verdict is Verdict.PASSED
        both = decided_by_pairs(stored, SAME, against="1a", environment=(), unknown=unknown)
        assert both.verdict is verdict, "nothing was run that could decide it"


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.IMPROVED])
def test_what_passed_keeps_its_figures_where_no_pair_was_run(verdict: Verdict) -> None:
    stored = by_sessions(verdict, 0.12)
    both = decided_by_pairs(stored, SAME, against="1a", environment=(TORCH,))
    assert (both.verdict, both.throughput, both.reason) == (
        verdict, stored.throughput, stored.reason,
    )  # fmt: skip
    assert both.details == (SAME.reason, *stored.details)


def test_what_is_worse_beside_the_rate_is_in_the_first_line() -> None:
    unchanged, grown = rate(Verdict.PASSED, 0.0), rate(Verdict.REGRESSED, 0.3)
    stored = judged_by(unchanged, peak_memory=grown)
    words = "peak memory grew by 30.0 %"
    assert decided_by_pairs(stored, SAME, against="1a", environment=(TORCH,)).reason.startswith(
        f"{words}; the code is the same"
    )
    assert same_code_judgement(stored, against="1a").reason.startswith(f"{words} with the code")
    packages = judged_by(unchanged, kind=Kind.PAIRS, than="1a2b3c4", peak_memory=grown)
    both = decided_by_packages(
        STORED, SAME, packages, changed=TORCH, environment=(), undo="pip install torch==2.12.1"
    )
    assert f"{TORCH}: {words}: regressed" in both.reason


@pytest.mark.parametrize(
    ("packages", "environment", "verdict", "words"),
    [
        (by_pairs(Verdict.REGRESSED, -0.076), (), Verdict.REGRESSED, "7.6 % slower: regressed"),
        (
            by_pairs(Verdict.REGRESSED, -0.076),
            (DRIVER,),
            Verdict.REGRESSED,
            "7.6 % slower: regressed",
        ),
        (by_pairs(Verdict.PASSED, 0.002), (), Verdict.PASSED, "0.2 % faster: passed"),
        (by_pairs(Verdict.PASSED, 0.002), (DRIVER,), STORED.verdict, f"0.2 % faster\n{DRIVER}; "),
        (
            by_pairs(Verdict.INCONCLUSIVE, -0.03),
            (),
            Verdict.INCONCLUSIVE,
            "3.0 % slower: inconclu",
        ),
    ],
)
def test_pairs_with_the_old_packages_decide_what_is_left(
    packages: Judgement, environment: tuple[str, ...], verdict: Verdict, words: str
) -> None:
    code = by_pairs(Verdict.PASSED, 0.001)
    found = decided_by_packages(
        STORED, code, packages, changed=TORCH, environment=environment,
        undo="pip install torch==2.12.1",
    )  # fmt: skip
    assert found.verdict is verdict
    is_of_stored = packages.verdict is Verdict.PASSED and bool(environment)
    assert found.throughput == (STORED if is_of_stored else packages).throughput
    assert found.reason.startswith(
        "8.0 % slower than stored; the code is not the cause (side by side +0.1 %); "
        f"{TORCH}: {words}"
    )
    is_red = packages.verdict is Verdict.REGRESSED
    assert ("pip install torch==2.12.1, or " in found.reason) is is_red
    assert lines_of(STORED, code, packages) == {*found.details}
