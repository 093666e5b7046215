"""What the second stage of verdicts was asked, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.outcome import Confirmation, Outcome
from pytest_dlperf.report import figures


def cost(outcomes: Sequence[Outcome]) -> str:
    """Return how many cases needed pairs and what these took; empty if none did.

    ``3 of 10 cases needed pairs: 14 pairs, 6 min``. What was taken from another session cost
    nothing in this one.
    """
    found = [
        outcome.confirmation
        for outcome in outcomes
        if outcome.confirmation is not None and not outcome.taken_from
    ]
    found = [one for one in found if pairs_of(one)]
    if not found:
        return ""
    cases = figures.counted(len(outcomes), "case")
    pairs = figures.counted(sum(map(pairs_of, found)), "pair")
    took_s = sum(one.elapsed_s for one in found)
    return f"{len(found)} of {cases} needed pairs: {pairs}, {figures.span(took_s, took_s)}"


def of_stored(outcome: Outcome) -> Outcome:
    """Return ``outcome`` with what stored sessions said of it, before pairs decided."""
    found = outcome.confirmation
    return outcome if found is None else replace(outcome, judgement=found.stored)


def of_pairs(outcome: Outcome) -> Outcome | None:
    """Return the pairs of ``outcome`` as those of an A/B; None where none were run."""
    found = outcome.confirmation
    if found is None or found.pairs is None or found.measurement is None or not found.against:
        return None
    return replace(
        outcome,
        judgement=found.pairs,
        measurement=found.measurement,
        against=found.against,
        confirmation=None,
    )


def fact(confirmation: Confirmation) -> str:
    """Return in a few words what was asked, and what it showed."""
    of = short_commit(confirmation.commit)
    if confirmation.pairs is not None and (count := pairs_of(confirmation)):
        took = figures.span(confirmation.elapsed_s, confirmation.elapsed_s)
        return f"{figures.counted(count, 'pair')} with {of}: {confirmation.pairs.verdict}, {took}"
    if confirmation.same_code:
        return f"the code is that of {of}"
    return f"no pairs: {confirmation.impossible}"


def pairs_of(confirmation: Confirmation) -> int:
    """Return how many pairs of runs were launched."""
    packages = confirmation.packages
    measured = (confirmation.measurement, packages and packages.measurement)
    return sum(len(one.runs) + len(one.disturbed_runs) for one in measured if one)
