"""The value of each run that pairs are judged by, in the order of the runs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.run import RunSummary


def medians(runs: Sequence[RunSummary]) -> tuple[float, ...]:
    """Return the rate of each run by its median iteration, which others' stalls hardly move.

    Empty where a run does not tell it.
    """
    rates = tuple(run.estimates.get("median_step", 0.0) for run in runs)
    return rates if all(math.isfinite(rate) and rate > 0 for rate in rates) else ()


def cpu_seconds(case: Case, runs: Sequence[RunSummary]) -> tuple[float, ...]:
    """Return the CPU seconds that all ranks took for an iteration; empty where one is unknown."""
    first, end = case.protocol.window
    values = []
    for run in runs:
        known = [rank.cpu_seconds for rank in run.ranks if rank.cpu_seconds is not None]
        values.append(sum(known) / (end - first) if len(known) == len(run.ranks) else 0.0)
    return tuple(values) if all(value > 0 for value in values) else ()


def peaks(runs: Sequence[RunSummary]) -> tuple[float, ...]:
    """Return the peak memory of each run in bytes; empty where one is unknown."""
    values = tuple(float(run.peak_memory_bytes or 0) for run in runs)
    return values if min(values) > 0 else ()
