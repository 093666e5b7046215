"""How many runs a case gets, and over how many comparisons errors are split."""

from __future__ import annotations

import pytest

from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.judge import family_size, more_runs
from tests.helpers.judge_builders import around, baseline, case, fixed_runs, published, session


def judged(verdict: Verdict) -> Judgement:
    return Judgement(verdict=verdict, reason="")


@pytest.mark.parametrize(
    ("verdict", "measured", "more"),
    [
        (None, 0, 3),
        (None, 3, 2),
        (None, 5, 0),
        (Verdict.PASSED, 3, 0),
        (Verdict.IMPROVED, 3, 0),
        (Verdict.REGRESSED, 3, 2),
        (Verdict.REGRESSED, 4, 1),
        (Verdict.REGRESSED, 5, 0),
        (Verdict.INCONCLUSIVE, 3, 2),
        (Verdict.INCONCLUSIVE, 5, 5),
        (Verdict.INCONCLUSIVE, 10, 0),
        (Verdict.INCOMPARABLE, 3, 2),
        (Verdict.INCOMPARABLE, 5, 0),
        (Verdict.UNSTEADY, 5, 0),
        (Verdict.NO_BASELINE, 3, 2),
        (Verdict.NO_BASELINE, 7, 0),
    ],
)
def test_the_looks_of_the_default_protocol(
    verdict: Verdict | None, measured: int, more: int
) -> None:
    judgement = None if verdict is None else judged(verdict)
    assert more_runs(case(), judgement, measured) == more


@pytest.mark.parametrize(
    ("most", "looks"), [(10, [3, 5, 7, 10]), (8, [3, 5, 8]), (40, [3, 5, 22, 40])]
)
def test_pairs_are_looked_at_half_way_to_the_most(most: int, looks: list[int]) -> None:
    subject, measured, seen = case(protocol=Protocol(max_runs=most)), 0, []
    open_ = judged(Verdict.INCONCLUSIVE)
    while more := more_runs(subject, open_, measured, in_pairs=True):
        measured += more
        seen.append(measured)
    assert seen == looks


@pytest.mark.parametrize("verdict", list(Verdict))
def test_runs_that_the_user_named_are_exactly_those(verdict: Verdict) -> None:
    subject = case(protocol=fixed_runs(4))
    assert more_runs(subject, None, 0) == 4
    assert more_runs(subject, judged(verdict), 4) == 0


def test_a_short_protocol_still_confirms_a_slow_case_with_fresh_runs() -> None:
    subject = case(protocol=Protocol(runs=2, max_runs=6))
    assert more_runs(subject, None, 0) == 2
    assert more_runs(subject, judged(Verdict.REGRESSED), 2) == 4
    assert more_runs(subject, judged(Verdict.REGRESSED), 6) == 0
    only = case(protocol=Protocol(runs=2, max_runs=2))
    assert more_runs(only, judged(Verdict.REGRESSED), 2) == 0


def test_every_verdict_ends() -> None:
    for verdict in Verdict:
        measured, steps = 0, 0
        while more := more_runs(case(), judged(verdict), measured):
            measured, steps = measured + more, steps + 1
        assert measured <= 10
        assert steps <= 3


def test_the_family_is_the_measured_cases() -> None:
    plain = baseline(session(around(100)))
    assert family_size([]) == 1
    assert family_size([published(100.0), baseline()]) == 1
    assert family_size([plain, plain]) == 2
