"""Whether a run was in one steady state over its window: a trend test that noise passes."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.stretch import most_different

#: Halves of a window whose median steps differ by less are one steady state, as a share. The
#: smaller bound is an assumption: no recording of GPUs has told yet.
DRIFT: Final[Mapping[DeviceKind, float]] = {"cpu": 0.10, "gpu": 0.03}
_BATCHES: Final = 10
#: The fewest batches on either side of a split. That noise separates batches completely at one
#: of these splits has a chance of 2 % or less a split.
_FEWEST: Final = 3


def drift(
    measured: Sequence[float], first: int, throughput: float, unit: str, device: DeviceKind
) -> list[Problem]:
    """Return the problem ``drift`` if the steps of a window became slower or faster over it.

    ``measured`` are the window's steps in seconds, the first is iteration ``first``. The medians
    of the halves differ beyond the bound, and medians of ten batches show a trend or a level
    that changed: one burst of noise is neither. A window of fewer than ten steps tells nothing.
    """
    if len(measured) < _BATCHES:
        return []
    half = len(measured) // 2
    before, after = statistics.median(measured[:half]), statistics.median(measured[half:])
    if abs(math.log(after / before)) <= math.log1p(DRIFT[device]) or not _has_trend(measured):
        return []
    message = (
        f"the median step went from {before:.4g} s in the first half of the window to "
        f"{after:.4g} s in the second"
    )
    if stretch := most_different(measured, first):
        message += f": {stretch.words(throughput, unit)}"
    return [Problem(code="drift", message=message)]


def _has_trend(measured: Sequence[float]) -> bool:
    count = len(measured)
    edges = [round(i * count / _BATCHES) for i in range(_BATCHES + 1)]
    batches = [statistics.median(measured[a:b]) for a, b in itertools.pairwise(edges)]
    splits = range(_FEWEST, _BATCHES - _FEWEST + 1)
    return any(
        max(batches[:at]) < min(batches[at:]) or min(batches[:at]) > max(batches[at:])
        for at in splits
    )
