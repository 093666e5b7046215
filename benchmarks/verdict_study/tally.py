"""Counts of verdicts, which add up over suites, and the rates and intervals that they give."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import TypeAlias

from scipy.special import betaincinv

#: A share and its interval of 95 %.
Rate: TypeAlias = "tuple[float, float, float]"


@dataclass(kw_only=True, slots=True)
class Tally:
    """What one rule said of one data set."""

    #: Cases by truth (the slowdown) and verdict.
    cases: Counter[tuple[float, str]] = field(default_factory=Counter)
    #: Unchanged suites, and those of them with at least one false alarm.
    suites: int = 0
    alarmed: int = 0
    #: Unchanged cases by the runs launched for them, of all arms.
    runs: Counter[float] = field(default_factory=Counter)

    def add_suite(self, truth: float, verdicts: list[tuple[str, float]]) -> None:
        """Count the cases of a suite: verdicts, and the runs launched for each."""
        self.cases.update((truth, verdict) for verdict, _ in verdicts)
        if truth == 0:
            self.suites += 1
            self.alarmed += any(verdict == "regressed" for verdict, _ in verdicts)
            self.runs.update(runs for _, runs in verdicts)

    def add(self, other: Tally) -> None:
        """Count what another process has counted."""
        self.cases.update(other.cases)
        self.suites += other.suites
        self.alarmed += other.alarmed
        self.runs.update(other.runs)

    def count(self, truth: float) -> int:
        """Return the number of cases of a truth."""
        return sum(count for (case_truth, _), count in self.cases.items() if case_truth == truth)

    def rate(self, truth: float, *verdicts: str) -> Rate | None:
        """Return the share of cases with any of the verdicts; None where there are no cases."""
        count = self.count(truth)
        hits = sum(self.cases[truth, verdict] for verdict in verdicts)
        return interval(hits, count) if count else None

    def suite_alarms(self) -> Rate:
        """Return the share of unchanged suites with a false alarm."""
        return interval(self.alarmed, self.suites)

    def mean_runs(self) -> float:
        """Return the mean number of runs of an unchanged case."""
        return statistics.fmean(self.runs.elements())

    def median_runs(self) -> float:
        """Return the median number of runs of an unchanged case."""
        return statistics.median(self.runs.elements())


def interval(hits: int, count: int) -> Rate:
    """Return a share and its interval of 95 % (Clopper and Pearson 1934)."""
    low = float(betaincinv(hits, count - hits + 1, 0.025)) if hits else 0.0
    high = float(betaincinv(hits + 1, count - hits, 0.975)) if hits < count else 1.0
    return hits / count, low, high
