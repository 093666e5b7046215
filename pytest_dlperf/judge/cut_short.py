"""A verdict for which there was no time left."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_dlperf.core.measurement import CUT_SHORT
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict

if TYPE_CHECKING:
    from pytest_dlperf.core.measurement import Measurement


def with_note(measurement: Measurement, budget: str) -> Measurement:
    """Return a measurement that says it lacks runs: it is judged, and never stored."""
    message = (
        f"the budget of {budget} was spent before all its runs; a session cut short is no baseline"
    )
    problem = Problem(code=CUT_SHORT, message=message)
    return replace(measurement, problems=(*measurement.problems, problem))


def cut_short(judgement: Judgement, budget: str) -> Judgement:
    """Return what a judgement is worth whose further runs the budget did not allow.

    A slow case that no fresh runs confirmed is not called; ``budget`` says how long it was.
    """
    if judgement.verdict is Verdict.INCONCLUSIVE:
        return replace(judgement, reason=f"{judgement.reason}; the budget of {budget} is spent")
    if judgement.verdict is not Verdict.REGRESSED:
        return judgement
    reason = (
        f"it looks slow, but the budget of {budget} was spent before fresh runs confirmed it; run "
        f"it again, it goes first next time ({judgement.reason})"
    )
    return replace(
        judgement,
        verdict=Verdict.INCONCLUSIVE,
        reason=reason,
        throughput=_open(judgement.throughput),
        metrics={name: _open(found) for name, found in judgement.metrics.items()},
    )


def _open(found: Comparison) -> Comparison:
    if found.verdict is not Verdict.REGRESSED:
        return found
    return replace(found, verdict=Verdict.INCONCLUSIVE)


def never_measured(case_id: str, budget: str) -> Judgement:
    """Return the judgement of a case for which no run was left."""
    return Judgement(
        verdict=Verdict.INCONCLUSIVE,
        reason=f"{case_id} was not measured: the budget of {budget} was spent before; it goes "
        "first next time, or give more with --dlperf-budget",
    )
