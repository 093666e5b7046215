"""What is believed of the noise of a metric before the case itself has told enough.

Recorded repeats, see docs/verdicts.md. The priors are weak, and on the wide side: a case with
few stored runs is judged by them, a case with many by its own spread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_dlperf.core.layout import DeviceKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Prior:
    """Standard deviations of log values that are expected, and how many samples that is worth."""

    #: Between runs (launches) of one session.
    run_sd: float
    #: Between sessions, on top of what their runs explain: day, node, clocks, placement.
    session_sd: float
    #: The prior counts as much as this many degrees of freedom of the case's own values.
    df: float = 8.0


THROUGHPUT: Final[Mapping[DeviceKind, Prior]] = {
    "cpu": Prior(run_sd=0.03, session_sd=0.03),
    "gpu": Prior(run_sd=0.008, session_sd=0.006),
}
#: On CPUs it is the resident set, which varies with the allocator.
MEMORY: Final[Mapping[DeviceKind, Prior]] = {
    "cpu": Prior(run_sd=0.015, session_sd=0.015),
    "gpu": Prior(run_sd=0.003, session_sd=0.003),
}
