"""Refuses runs whose loss does not fall as the baseline's does: fast, but training wrongly.

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

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.judge.sentences import percent

#: The least half width of the band, as a share of the baseline's fall. A rerun of the same build
#: on a CPU repeats its losses; another build rounds differently, and the trainings diverge.
#: Weights that differed by a millionth changed the fall by up to 17 % in float32 and 25 % in
#: bfloat16 (docs/convergence.md); the shares are above both. Loss scaling also skips iterations.
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


def band(precision: str, stored: Sequence[Session]) -> Band | None:
    """Return the band around the stored falls; None where none is stored (published numbers)."""
    falls = [session.loss_fall for session in stored if session.loss_fall is not None]
    if not falls:
        return None
    before = statistics.median(falls)
    spread = statistics.stdev(falls) if len(falls) >= _ENOUGH else 0.0
    half = max(SHARE[precision] * abs(before), _SPREADS * spread, _LEAST)
    return Band(before=before, low=before - half, high=before + half)


def fault(
    case: Case,
    measurement: Measurement,
    stored: Sequence[Session],
    *,
    whose: str = "the baseline's",
) -> str:
    """Return the sentence of the first run outside the band, or nothing.

    Every run must be within it, not their median: a run that trained something else did other
    work. Where the loss need not fall, since the data differ at every step, nothing is checked.
    """
    known = band(case.precision, stored)
    if known is None or case.loss != "falls" or measurement.conditions.data != "synthetic":
        return ""
    for number, run in enumerate(measurement.runs, start=1):
        fall = run.loss_fall
        if fall is not None and not known.low <= fall <= known.high:
            return (
                f"fast but wrong: the loss {_words(fall)} in run {number}, {whose} "
                f"{_words(known.before)}, and an unchanged training stays within "
                f"{percent(known.low)} to {percent(known.high)}; look at labels, learning rate "
                "and averaging of gradients, or, if the training was changed on purpose, raise "
                "the case's version"
            )
    return ""


def _words(fall: float) -> str:
    return f"rose by {percent(-fall)}" if fall < 0 else f"fell by {percent(fall)}"
