"""A step of a bisection: what its exit code says of a measured commit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pytest_dlperf.cli.history import bisect_step
from pytest_dlperf.core.outcome import Against, Outcome
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from tests.helpers.history_builders import outcome

OLD, NEW, SKIP, STOP = 0, 1, 125, 129


def judged(verdict: Verdict, speed: Verdict | None, **metrics: Verdict) -> Outcome:
    judgement = Judgement(
        verdict=verdict,
        reason="",
        throughput=Comparison(verdict=speed),
        metrics={name: Comparison(verdict=one) for name, one in metrics.items()},
    )
    return replace(outcome(), judgement=judgement)


@pytest.mark.parametrize(
    ("measured", "slower"),
    [
        (judged(Verdict.REGRESSED, Verdict.REGRESSED), True),
        (judged(Verdict.REGRESSED, Verdict.PASSED, peak_memory=Verdict.REGRESSED), False),
        (judged(Verdict.REGRESSED, Verdict.IMPROVED, cpu_seconds=Verdict.REGRESSED), False),
        (judged(Verdict.REGRESSED, Verdict.PASSED, whole_window=Verdict.REGRESSED), True),
        (judged(Verdict.REGRESSED, Verdict.INCONCLUSIVE, peak_memory=Verdict.REGRESSED), None),
        (
            judged(
                Verdict.REGRESSED,
                Verdict.PASSED,
                whole_window=Verdict.INCONCLUSIVE,
                peak_memory=Verdict.REGRESSED,
            ),
            None,
        ),
        (judged(Verdict.PASSED, Verdict.PASSED), False),
        (judged(Verdict.INCONCLUSIVE, Verdict.PASSED, whole_window=Verdict.INCONCLUSIVE), None),
        (judged(Verdict.ERROR, None), None),
        (judged(Verdict.INCOMPARABLE, Verdict.INCOMPARABLE), None),
    ],
)
def test_a_commit_is_slower_by_its_speed_alone(measured: Outcome, slower: bool | None):
    codes = [bisect_step.code_of(measured, faster=faster) for faster in (False, True)]
    assert codes == {True: [NEW, OLD], False: [OLD, NEW], None: [SKIP, SKIP]}[slower]


def test_what_cannot_be_affected_is_not_slower():
    same = Against(name="HEAD", kind="ref", unaffected=True)
    measured = replace(judged(Verdict.INCONCLUSIVE, Verdict.INCONCLUSIVE), against=same)
    assert bisect_step.code_of(measured, faster=False) == OLD


@pytest.mark.parametrize("verdict", sorted(Verdict, key=str))
def test_only_an_undecided_verdict_suggests_more_pairs(verdict: Verdict, capsys: Any):
    bisect_step.code_of(judged(verdict, verdict), faster=False)
    told = "more pairs" in capsys.readouterr().err
    assert told == (verdict is Verdict.INCONCLUSIVE)
