"""What reports say of the second stage."""

from __future__ import annotations

from dataclasses import replace

from pytest_dlperf.core.outcome import Against, Confirmation, Outcome, PackagePairs
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.report.confirmation import as_pairs, cost, fact
from tests.helpers.judge_builders import around, case, measurement

STORED = Judgement(verdict=Verdict.REGRESSED, reason="by sessions")
PASSED = Judgement(verdict=Verdict.PASSED, reason="by the code")
SLOWER = Judgement(verdict=Verdict.REGRESSED, reason="by packages")
FIVE = measurement(around(100.0))
SAME_CODE = Confirmation(stored=STORED, commit="1a2b3c4d", same_code=True)
PAIRS = Confirmation(
    stored=STORED, commit="1a2b3c4d", pairs=PASSED, measurement=FIVE, elapsed_s=90,
    against=Against(name="1a2b3c4", kind="ref"),
)  # fmt: skip
PACKAGES = PackagePairs(
    pairs=SLOWER, measurement=FIVE, search_pairs=9,
    against=Against(name="torch==2.12.1", kind="requirement"),
)  # fmt: skip


def test_pairs_of_packages_follow_those_of_the_code():
    count = len(FIVE.runs)
    assert fact(SAME_CODE) == "the code is that of 1a2b3c4"
    assert fact(PAIRS).startswith(f"{count} pairs with 1a2b3c4: passed, ")
    words = fact(replace(PAIRS, packages=PACKAGES))
    assert f"passed, {count} pairs with its packages: regressed, " in words
    none = fact(replace(SAME_CODE, packages=PackagePairs(impossible="no index has them")))
    assert none == "the code is that of 1a2b3c4, none with its packages: no index has them"


def test_those_that_decided_are_shown_and_all_are_counted():
    outcome = Outcome(case=case(), judgement=SLOWER, measurement=FIVE, confirmation=PAIRS)
    shown = as_pairs(outcome)
    assert shown is not None
    assert shown.judgement == PASSED
    both = replace(outcome, confirmation=replace(PAIRS, packages=PACKAGES))
    shown = as_pairs(both)
    assert shown is not None
    assert (shown.judgement, shown.against) == (SLOWER, PACKAGES.against)
    assert f"{2 * len(FIVE.runs) + 9} pairs" in cost([both])
