"""Compares the canary (fixed work on each rank) with stored ones, to notice a changed machine."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import Comparison, Verdict
from pytest_dlperf.judge.stats.contrast import margin as log_margin

#: The canary metric of the links between CPU processes, and between GPUs.
_ALL_REDUCE: Final = "all_reduce_gb_per_s"
OF_LINKS: Final = frozenset({_ALL_REDUCE, "sustained_all_reduce_gb_per_s"})
#: A shift below this, as a share, is not taken for a change of the machine.
MARGIN: Final[Mapping[DeviceKind, float]] = {"cpu": 0.10, "gpu": 0.05}
#: On CPU processes these two vary by themselves: over 40 runs on 2 quiet cores the copy of two
#: ranks was 25 or 50 GB/s, gloo's all-reduce 0.7 to 1.8 GB/s, the matrix product 102 to 104.
_LOOSE: Final = {("cpu", "copy_gb_per_s"): 0.75, ("cpu", _ALL_REDUCE): 0.75}
#: A shift must also exceed this many standard deviations of the canary itself.
_SPREADS: Final = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Shift:
    """The canary metric that moved most, and by how much in logs (below 0: slower)."""

    name: str
    size: float
    #: Empty where the run has one node, or where no stored session ran on it.
    node: str = ""

    def explains(self, change: float, tolerance: float) -> bool:
        """Whether a log change is between 0 and twice this shift, give or take the tolerance."""
        return abs(change - self.size) <= abs(self.size) + tolerance


def shift_behind(
    measurement: Measurement,
    stored: Sequence[Session],
    device: DeviceKind,
    rate: Comparison,
) -> tuple[Shift | None, bool]:
    """Return how the machine moved, and whether that may be all of the change of ``rate``.

    The shift is the largest that may be all of it, else the largest; None if it did not move.
    """
    change, tolerance = math.log1p(rate.change or 0.0), log_margin(rate.tolerance or 0.0)
    moved = sorted(
        shifts(measurement, stored, device), key=lambda shift: abs(shift.size), reverse=True
    )
    if moved:
        moved.sort(key=lambda shift: not shift.explains(change, tolerance))
        return moved[0], moved[0].explains(change, tolerance)
    if rate.verdict is not Verdict.REGRESSED:
        return None, False
    # Too noisy to refuse every verdict, but it may be all that an alarm saw
    shift = slower_perhaps(measurement, stored, device)
    if shift is None or not shift.explains(change, tolerance):
        return None, False
    return shift, True


def links_behind(
    measurement: Measurement, stored: Sequence[Session], device: DeviceKind, rate: Comparison
) -> Shift | None:
    """Return the shift that may be all of a change where links alone became slower, else None."""
    moved = shifts(measurement, stored, device)
    if not moved or not all(shift.name in OF_LINKS and shift.size < 0 for shift in moved):
        return None
    shift, explains = shift_behind(measurement, stored, device, rate)
    return shift if explains else None


def slower_perhaps(
    measurement: Measurement, stored: Sequence[Session], device: DeviceKind
) -> Shift | None:
    """Return the largest fall that may be the canary's own noise; None if there is none.

    It is beyond the margin of the device. Where the case fell by as much, it is evidence all the
    same. The metrics that vary by themselves on CPU processes are left out.
    """
    moved = shifts(measurement, stored, device, spreads=0.0)
    falls = [shift for shift in moved if shift.size < 0 and (device, shift.name) not in _LOOSE]
    return min(falls, key=lambda shift: shift.size, default=None)


def shifts(
    measurement: Measurement,
    stored: Sequence[Session],
    device: DeviceKind,
    *,
    spreads: float = _SPREADS,
) -> list[Shift]:
    """Return all shifts beyond the margin and ``spreads`` times the canary's own noise.

    Each node is compared with itself in the sessions that ran on it. Where a node is new, the
    slowest rank of all is compared with that of all sessions.
    """
    nodes = sorted({node for run in measurement.runs for node in run.canary_by_node})
    own = {
        node: [s.canary_by_node[node] for s in stored if node in s.canary_by_node]
        for node in nodes
    }
    moved: list[Shift] = []
    for node in (node for node in nodes if own[node]):
        now = [run.canary_by_node.get(node, {}) for run in measurement.runs]
        moved += _shifts(now, own[node], device, node if len(nodes) > 1 else "", spreads=spreads)
    if not nodes or not all(own.values()):
        now, before = [run.canary for run in measurement.runs], [s.canary for s in stored]
        moved += _shifts(now, before, device, "", spreads=spreads)
    return moved


def _shifts(
    now_sides: Sequence[Mapping[str, float]],
    before_sides: Sequence[Mapping[str, float]],
    device: DeviceKind,
    node: str,
    *,
    spreads: float,
) -> list[Shift]:
    shifts = []
    for name in sorted({name for side in now_sides for name in side}):
        now, before = _logs(now_sides, name), _logs(before_sides, name)
        if not now or not before:
            continue
        size = statistics.median(now) - statistics.fmean(before)
        # Of a difference of two sessions, assuming that the stored one is as noisy as this one.
        noise = statistics.stdev(now) * math.sqrt(2 / len(now)) if len(now) > 1 else 0.0
        if len(before) >= 3:
            noise = max(noise, statistics.stdev(before))
        margin = _LOOSE.get((device, name), MARGIN[device])
        if abs(size) > max(math.log1p(margin), spreads * noise):
            shifts.append(Shift(name=name, size=size, node=node))
    return shifts


def _logs(sides: Sequence[Mapping[str, float]], name: str) -> list[float]:
    rates = [side[name] for side in sides if name in side]
    return [math.log(rate) for rate in rates if math.isfinite(rate) and rate > 0]
