"""Metrics of every case beside throughput and speedup."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.verdict import GOOD, Verdict
from pytest_dlperf.judge.evidence import Evidence
from pytest_dlperf.judge.figures import is_worse, metric_finding, rate_is


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield what got worse, and the whole window where it is open while the median is not.

    Iterations that stall do not move the median one. More CPU seconds for a faster training are a
    trade-off. The anchor shows slowdowns too small for any one session, and a faster case has
    none. No machine, and no drifting step, makes the peak memory larger.
    """
    is_faster = rate_is(evidence, Verdict.IMPROVED)
    if is_worse(evidence, "whole_window"):
        yield metric_finding(evidence, "whole_window", "worse", Weight.RED)
    elif _is_window_open(evidence) and rate_is(evidence, *GOOD):
        # As many pairs would decide it as throughput and window need
        figures = {name: evidence.figures[name] for name in ("runs", "run_s", "adaptive")}
        needed = None if evidence.rate is None else evidence.rate.runs_needed
        yield metric_finding(
            evidence, "whole_window", "open", Weight.OPEN, runs_needed=needed, **figures
        )
    if is_worse(evidence, "cpu_seconds"):
        code, weight = ("excused", Weight.NOTE) if is_faster else ("worse", Weight.RED)
        yield metric_finding(evidence, "cpu_seconds", code, weight)
    if is_worse(evidence, "anchor") and not is_faster:
        yield metric_finding(evidence, "anchor", "worse", Weight.RED)
    if is_worse(evidence, "peak_memory"):
        yield metric_finding(evidence, "peak_memory", "worse", Weight.FACT)


def _is_window_open(evidence: Evidence) -> bool:
    window = evidence.comparisons.get("whole_window")
    return window is not None and window.verdict is Verdict.INCONCLUSIVE
