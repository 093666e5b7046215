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
    second_stages = [
        outcome.confirmation
        for outcome in outcomes
        if outcome.confirmation is not None and not outcome.taken_from
    ]
    in_pairs = [stage for stage in second_stages if pair_count(stage)]
    if not in_pairs:
        return ""
    cases = figures.counted(len(outcomes), "case")
    pairs = figures.counted(sum(map(pair_count, in_pairs)), "pair")
    took_s = sum(stage.elapsed_s for stage in in_pairs)
    return f"{len(in_pairs)} of {cases} needed pairs: {pairs}, {figures.span(took_s, took_s)}"


def as_judged_by_stored(outcome: Outcome) -> Outcome:
    """Return ``outcome`` with what stored sessions said of it, before pairs decided."""
    second = outcome.confirmation
    return outcome if second is None else replace(outcome, judgement=second.stored)


def as_pairs(outcome: Outcome) -> Outcome | None:
    """Return the pairs of ``outcome`` that decided as those of an A/B; None where none were run.

    Those of packages follow those of the code, where these left it open.
    """
    second = outcome.confirmation
    if second is None:
        return None
    packages = second.packages
    last = second if packages is None or packages.pairs is None else packages
    if last.pairs is None or last.measurement is None or not last.against:
        return None
    return replace(
        outcome,
        judgement=last.pairs,
        measurement=last.measurement,
        against=last.against,
        confirmation=None,
    )


def fact(confirmation: Confirmation) -> str:
    """Return in a few words what was asked, and what it showed."""
    commit, packages = short_commit(confirmation.commit), confirmation.packages
    if confirmation.pairs is not None and confirmation.measurement is not None:
        words = f"{_pairs(confirmation.measurement)} with {commit}: {confirmation.pairs.verdict}"
    elif confirmation.same_code:
        words = f"the code is that of {commit}"
    else:
        words = f"no pairs: {confirmation.impossible}"
    if packages is not None and packages.pairs is not None and packages.measurement is not None:
        words += f", {_pairs(packages.measurement)} with its packages: {packages.pairs.verdict}"
    elif packages is not None:
        words += f", none with its packages: {packages.impossible}"
    if pair_count(confirmation):
        words += f", {figures.span(confirmation.elapsed_s, confirmation.elapsed_s)}"
    return words


def _pairs(measurement: Measurement) -> str:
    return figures.counted(len(measurement.runs) + len(measurement.disturbed_runs), "pair")


def pair_count(confirmation: Confirmation) -> int:
    """Return how many pairs of runs were launched."""
    packages = confirmation.packages
    measurements = (confirmation.measurement, packages and packages.measurement)
    count = sum(len(each.runs) + len(each.disturbed_runs) for each in measurements if each)
    return count + (packages.search_pairs if packages else 0)
