"""Notes where both arms of a pair in lock-step drift alike: the machine did, and neither arm."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.run import MACHINE_DRIFTED, Problem, RunSummary
from pytest_dlperf.measure.checks import is_level, median_halves

#: The share of an arm's drift that the other arm has to have as well.
_AS_FAR: Final = 0.5


def with_shared_drift(run: RunSummary, other_run: RunSummary, device: DeviceKind) -> RunSummary:
    """Return ``run``, with a note where ``other_run``, in turns with it, drifted as it does.

    The other arm's steps in the same turns show the machine: it has to have drifted at least
    half as far, and the halves of the ratio to it must be one steady state. Without turns
    ``run`` is unchanged.
    """
    is_drifting = any(problem.code == "drift" for problem in run.problems)
    if not is_drifting or not run.turns or run.turns != other_run.turns:
        return run
    first = run.turns[0]
    own_s, other_s = run.step_seconds[first:], other_run.step_seconds[first:]
    typical_s = statistics.median(other_s)
    steady: list[float] = []
    for begin, end in itertools.pairwise((*run.turns, len(run.step_seconds))):
        slower = statistics.median(other_run.step_seconds[begin:end]) / typical_s
        steady += [step_s / slower for step_s in run.step_seconds[begin:end]]
    if _drift_of(other_s) / _drift_of(own_s) < _AS_FAR or not is_level(steady, device):
        return run
    message = "the steps of the other arm, in turns with these, drifted as they did"
    note = Problem(code=MACHINE_DRIFTED, message=message)
    return replace(run, problems=(*run.problems, note))


def _drift_of(steps_s: Sequence[float]) -> float:
    """Return how far the second half of a window is from the first, as a log."""
    before_s, after_s = median_halves(steps_s)
    return math.log(after_s / before_s)
