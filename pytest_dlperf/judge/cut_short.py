"""A verdict for which there was no time left."""

from __future__ import annotations

from dataclasses import replace

from pytest_dlperf.core.verdict import Judgement, Verdict


def cut_short(judgement: Judgement, budget: str) -> Judgement:
    """Return what a judgement is worth whose further runs the budget did not allow.

    A slow case that no fresh runs confirmed is not called; ``budget`` says how long it was.
    """
    if judgement.verdict is Verdict.INCONCLUSIVE:
        return replace(judgement, reason=f"{judgement.reason}; the budget of {budget} is spent")
    if judgement.verdict is not Verdict.REGRESSED:
        return judgement
    found = replace(judgement.throughput, verdict=Verdict.INCONCLUSIVE)
    reason = (
        f"it looks slow, but the budget of {budget} was spent before fresh runs confirmed it; run "
        f"it again, it goes first next time ({judgement.reason})"
    )
    return replace(judgement, verdict=Verdict.INCONCLUSIVE, reason=reason, throughput=found)


def never_measured(case_id: str, budget: str) -> Judgement:
    """Return the judgement of a case for which no run was left."""
    return Judgement(
        verdict=Verdict.INCONCLUSIVE,
        reason=f"{case_id} was not measured: the budget of {budget} was spent before; it goes "
        "first next time, or give more with --dlperf-budget",
    )
