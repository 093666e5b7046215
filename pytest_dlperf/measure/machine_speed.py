"""Reads the machine's speed that ranks sampled within their window, and steps at its mean.

In lock-step the steps of the other arm show it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.run import MACHINE_DRIFTED, Problem, RunSummary
from pytest_dlperf.core.wire_records import MachineSpeedRecord
from pytest_dlperf.measure.checks import drift, is_level, median_halves
from pytest_dlperf.measure.records import RankRecords

#: How many times as much a training may follow the machine's speed.
_SLOPES: Final = (1.0, 1.5, 2.0)
#: The share of an arm's drift that the other arm has to have as well.
_AS_FAR: Final = 0.5


def machine_speed(records: Sequence[RankRecords]) -> dict[str, float]:
    """Return the repetitions a second on the slowest rank, by the name of the fixed work.

    Nothing where a rank did none of it, or another one.
    """
    sampled = _sampled(records)
    return {one["work"]: _speed(one) for one in [min(sampled, key=_speed)]} if sampled else {}


def drift_beyond_machine(
    records: Sequence[RankRecords],
    measured: Sequence[float],
    first: int,
    throughput: float,
    unit: str,
    device: DeviceKind,
) -> list[Problem]:
    """Return the problem of steps that drift, with a note where the machine's speed did as well.

    ``measured`` are the window's steps in seconds, the first is iteration ``first``.
    """
    found = drift(measured, first, throughput, unit, device)
    sampled = _sampled(records)
    if not found or not sampled:
        return found
    slowest = min(sampled, key=_speed)
    steady = [_at_mean_speed(measured, first, slowest, slope) for slope in _SLOPES]
    # By the halves alone: noise of the samples may hide the trend that a drift must have
    if not any(is_level(one, device) for one in steady):
        return found
    message = "fixed work between the steps drifted as they did; at one speed they are alike"
    return [*found, Problem(code=MACHINE_DRIFTED, message=message)]


def with_shared_drift(run: RunSummary, other: RunSummary, device: DeviceKind) -> RunSummary:
    """Return ``run``, with a note where ``other``, in turns with it, drifted as it does.

    The other arm's steps in the same turns are then the fixed work: it has to have drifted at
    least half as far, and the halves of the ratio to it must be one steady state. Without turns
    ``run`` is unchanged.
    """
    is_drifting = any(problem.code == "drift" for problem in run.problems)
    if not is_drifting or not run.turns or run.turns != other.turns:
        return run
    first = run.turns[0]
    mine, theirs = run.step_seconds[first:], other.step_seconds[first:]
    typical_s = statistics.median(theirs)
    steady: list[float] = []
    for begin, end in itertools.pairwise((*run.turns, len(run.step_seconds))):
        slower = statistics.median(other.step_seconds[begin:end]) / typical_s
        steady += [one / slower for one in run.step_seconds[begin:end]]
    if _drift_of(theirs) / _drift_of(mine) < _AS_FAR or not is_level(steady, device):
        return run
    message = "the steps of the other arm, in turns with these, drifted as they did"
    note = Problem(code=MACHINE_DRIFTED, message=message)
    return replace(run, problems=(*run.problems, note))


def _drift_of(steps_s: Sequence[float]) -> float:
    """Return how far the second half of a window is from the first, as a log."""
    before_s, after_s = median_halves(steps_s)
    return math.log(after_s / before_s)


def _sampled(records: Sequence[RankRecords]) -> list[MachineSpeedRecord]:
    """Return the record of each rank; none where the ranks did not all do the same work."""
    found = [r.by_kind["machine_speed"] for r in records if "machine_speed" in r.by_kind]
    is_one = len({one["work"] for one in found}) == 1
    return found if is_one and len(found) == len(records) else []


def _speed(found: MachineSpeedRecord) -> float:
    return found["repetitions"] * len(found["seconds"]) / sum(found["seconds"])


def _at_mean_speed(
    measured: Sequence[float], first: int, found: MachineSpeedRecord, slope: float
) -> list[float]:
    """Return the steps as they would be, had the machine always had its mean speed.

    The speed of a block is that of the samples at its ends.
    """
    seconds, begins = found["seconds"], found["first_steps"]
    mean_s = sum(seconds) / len(seconds)
    steady: list[float] = []
    ends = [*begins[1:], first + len(measured)]
    for begin, end, pair in zip(begins, ends, itertools.pairwise(seconds), strict=True):
        slower = (sum(pair) / 2 / mean_s) ** slope
        steady += [one / slower for one in measured[begin - first : end - first]]
    return steady
