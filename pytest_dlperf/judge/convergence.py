"""The falls of the loss that an unchanged training has: beyond them it is fast, but wrong.

The fall is (first - last) / first, where first is the loss before the first update and last the
mean over the last tenth of a run's iterations. It is not compared as log(last / first): on one
fixed batch the last loss approaches 0, where its log depends on rounding and chance, not on
whether the training is right.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

#: The least half width of the band, as a share of the baseline's fall. A rerun of the same build
#: on a CPU repeats its losses; another build rounds differently, and the trainings diverge.
#: Weights that differed by a millionth changed the fall by up to 17 % in float32 and 25 % in
#: bfloat16 (``RECORDED`` in ``tests/unit/judge/test_judge_convergence.py``); the shares are above
#: both. Loss scaling also skips iterations.
SHARE: Final[Mapping[str, float]] = {
    "fp32": 0.25,
    "tf32": 0.25,
    "bf16": 0.35,
    "amp": 0.35,
    "pure_fp16": 0.35,
    #: As of half precision; not measured.
    "fp8": 0.35,
}
#: Falls that differ by less count as equal: dropout alone makes single losses differ that much.
_LEAST: Final = 0.02
#: Half width of the band in standard deviations of the stored sessions.
_SPREADS: Final = 3.0
#: The fewest stored sessions whose spread is used.
_ENOUGH: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """The falls that an unchanged training has."""

    #: The fall of the stored sessions, their median.
    before: float
    low: float
    high: float


def band(precision: str, falls: Sequence[float]) -> Band:
    """Return the band around the falls of stored sessions, of which there is one at least."""
    before = statistics.median(falls)
    spread = statistics.stdev(falls) if len(falls) >= _ENOUGH else 0.0
    half = max(SHARE[precision] * abs(before), _SPREADS * spread, _LEAST)
    return Band(before=before, low=before - half, high=before + half)
