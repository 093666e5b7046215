"""Whether the training trains: its loss falls as before, and its log says no failure."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.judge.convergence import band
from pytest_dlperf.judge.evidence import Evidence


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield the first run outside the band of falls, or the failure that a log says.

    Every run must be within it, not their median: a run that trained something else did other
    work. Where the loss need not fall, since the data differ at every step, nothing is checked;
    neither where other conditions make it another training.
    """
    if evidence.failure:
        figures = {"says": evidence.failure}
        yield Finding(code="training-failed", weight=Weight.ERROR, figures=figures)
    loss = evidence.loss
    if loss is None or evidence.differences:
        return
    allowed = band(loss.precision, loss.before)
    for number, fall in enumerate(loss.now, start=1):
        if fall is not None and not allowed.low <= fall <= allowed.high:
            yield Finding(
                code="loss-differs",
                weight=Weight.ERROR,
                figures={
                    "run": number,
                    "fall": fall,
                    "whose": loss.whose,
                    "before": allowed.before,
                    "low": allowed.low,
                    "high": allowed.high,
                },
            )
            return
