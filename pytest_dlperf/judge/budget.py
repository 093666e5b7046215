"""What is said of a case for whose further runs the budget had no time."""

from __future__ import annotations

from dataclasses import replace

from pytest_dlperf.core.finding import BUDGET_SPENT, Weight, counting
from pytest_dlperf.core.measurement import CUT_SHORT, Measurement
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import Comparison, Judgement, Verdict
from pytest_dlperf.judge.verdict import plain_judgement, with_finding


def marked_cut_short(measurement: Measurement, why: str) -> Measurement:
    """Return the measurement with the problem ``CUT_SHORT``, for ``why``: it is never stored."""
    message = f"{why}; a session cut short cannot be a baseline"
    problem = Problem(code=CUT_SHORT, message=message)
    return replace(measurement, problems=(*measurement.problems, problem))


def cut_short(judgement: Judgement, budget: str, *, looked: bool) -> Judgement:
    """Return the judgement of a case whose further runs the budget did not allow.

    ``looked``: there are as many runs as the first look needs. It has its own part of the error
    rate, so a case that is slower by it stays ``regressed``; with fewer runs it is
    ``inconclusive``, unless a count is worse, which one run shows. ``budget`` is its length, in
    words.
    """
    if judgement.verdict is Verdict.INCONCLUSIVE:
        return with_finding(judgement, BUDGET_SPENT, Weight.OPEN, budget=budget)
    if judgement.verdict is not Verdict.REGRESSED:
        return judgement
    if looked:
        return with_finding(judgement, BUDGET_SPENT, budget=budget, before_confirmed=True)
    if any(
        finding.figures.get("is_count") and finding.weight is Weight.FACT
        for finding in counting(judgement.findings)
    ):
        return with_finding(judgement, BUDGET_SPENT, budget=budget)
    unconfirmed = replace(
        judgement,
        throughput=_open(judgement.throughput),
        metrics={name: _open(compared) for name, compared in judgement.metrics.items()},
    )
    return with_finding(
        unconfirmed,
        BUDGET_SPENT,
        Weight.OPEN,
        budget=budget,
        before_confirmed=True,
        unconfirmed=True,
    )


def _open(compared: Comparison) -> Comparison:
    if compared.verdict is not Verdict.REGRESSED:
        return compared
    return replace(compared, verdict=Verdict.INCONCLUSIVE)


def never_measured(case_id: str, budget: str) -> Judgement:
    """Return the judgement of a case for which the budget left no run."""
    return plain_judgement(
        Verdict.INCONCLUSIVE,
        f"{case_id} was not measured: the budget of {budget} was spent before; it runs "
        "first next time, or raise --dlperf-budget",
        code="never-measured",
    )
