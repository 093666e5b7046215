"""When all cases are slower alike it is rather the machine; what follows is incomparable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.judge.common_shift import common_shift, with_common_shift


def found(
    change: float,
    verdict: Verdict = Verdict.REGRESSED,
    tolerance: float = 0.05,
) -> Comparison:
    return Comparison(
        now=90.0, before=100.0, change=change, interval=(change - 0.02, change + 0.02),
        sees=0.03, tolerance=tolerance, verdict=verdict,
    )  # fmt: skip


def judged(change: float, verdict: Verdict = Verdict.REGRESSED) -> Judgement:
    return Judgement(verdict=verdict, reason="so it is", throughput=found(change, verdict=verdict))


ALIKE = [found(-0.20), found(-0.21)]


def test_cases_that_are_slower_alike_share_a_shift():
    shift = common_shift(ALIKE)
    assert shift == pytest.approx((-0.22, -0.19))


def test_what_is_called_regressed_within_a_wide_learnt_tolerance_counts_as_well():
    wide = [found(-0.20, tolerance=0.25), found(-0.21, tolerance=0.25)]
    assert common_shift(wide) == pytest.approx((-0.22, -0.19))


@pytest.mark.parametrize(
    "so_far",
    [
        [],
        [found(-0.20)],
        [found(-0.20), found(-0.30)],
        [found(-0.20), found(-0.21), found(0.0, verdict=Verdict.PASSED)],
        [found(0.20), found(0.21)],
        [found(-0.20, Verdict.INCONCLUSIVE), found(-0.21, Verdict.INCONCLUSIVE)],
        [found(-0.20), found(-0.21, Verdict.INCONCLUSIVE)],
        [Comparison(now=1.0), found(-0.20)],
    ],
    ids=[
        "none",
        "one",
        "differ",
        "one-is-well",
        "faster",
        "all-open",
        "one-open",
        "not-judged",
    ],
)
def test_all_else_is_no_shared_shift(so_far: list[Comparison]):
    assert common_shift(so_far) is None
    assert with_common_shift(judged(-0.2), so_far, "n1").verdict is Verdict.REGRESSED


@pytest.mark.parametrize("verdict", [Verdict.REGRESSED, Verdict.INCONCLUSIVE])
def test_what_follows_is_incomparable_and_names_the_shift(verdict: Verdict):
    now = with_common_shift(judged(-0.19, verdict), ALIKE, "n1")
    assert now.verdict is Verdict.INCOMPARABLE
    assert now.throughput.change == pytest.approx(-0.19)
    assert not now.throughput.is_judged
    assert now.throughput.now == 90.0
    assert "the first 2 cases of this session on n1 regressed, all 20.5 % slower" in now.reason
    assert "--dlperf-against" in now.reason


def test_what_no_slower_machine_does_stays_regressed():
    slow = judged(-0.19)
    memory = replace(slow, metrics={"peak_memory": found(0.5)})
    assert with_common_shift(memory, ALIKE, "n1") is memory
    certified = replace(slow, throughput=found(-0.19, Verdict.PASSED))
    assert with_common_shift(certified, ALIKE, "n1") is certified
    speedup = replace(slow, metrics={"speedup": found(-0.19)})
    assert with_common_shift(speedup, ALIKE, "n1").verdict is Verdict.INCOMPARABLE


def test_a_case_that_is_much_slower_is_not_explained():
    assert with_common_shift(judged(-0.40), ALIKE, "n1").verdict is Verdict.REGRESSED


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.ERROR, Verdict.UNSTEADY])
def test_what_is_certified_or_was_not_judged_is_left_alone(verdict: Verdict):
    before = judged(-0.19, verdict)
    assert with_common_shift(before, ALIKE, "n1") is before
