"""What the second stage of verdicts was asked, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_dlperf.core.measurement import Measurement, short_commit
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
    """Return the pairs of ``outcome`` that decided as those of an A/B; None where none were run.

    Those of packages follow those of the code, where these left it open.
    """
    second = outcome.confirmation
    if second is None:
        return None
    packages = second.packages
    found = second if packages is None or packages.pairs is None else packages
    if found.pairs is None or found.measurement is None or not found.against:
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
    of, packages = short_commit(confirmation.commit), confirmation.packages
    if confirmation.pairs is not None and confirmation.measurement is not None:
        words = f"{_pairs(confirmation.measurement)} with {of}: {confirmation.pairs.verdict}"
    elif confirmation.same_code:
        words = f"the code is that of {of}"
    else:
        words = f"no pairs: {confirmation.impossible}"
    if packages is not None and packages.pairs is not None and packages.measurement is not None:
        words += f", {_pairs(packages.measurement)} with its packages: {packages.pairs.verdict}"
    elif packages is not None:
        words += f", none with its packages: {packages.impossible}"
    if pairs_of(confirmation):
        words += f", {figures.span(confirmation.elapsed_s, confirmation.elapsed_s)}"
    return words


def _pairs(measurement: Measurement) -> str:
    return figures.counted(len(measurement.runs) + len(measurement.disturbed_runs), "pair")


def pairs_of(confirmation: Confirmation) -> int:
    """Return how many pairs of runs were launched."""
    packages = confirmation.packages
    measured = (confirmation.measurement, packages and packages.measurement)
    count = sum(len(one.runs) + len(one.disturbed_runs) for one in measured if one)
    return count + (packages.search_pairs if packages else 0)
