"""Priors for the noise of each metric, used until a case has enough runs of its own.

They are from recorded repeats, weak, and rather wide: a case with few stored runs is judged by
them, a case with many by its own spread (docs/concepts/statistics.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.verdict import Prior

#: From so many stored sessions on, their spread shows how far sessions differ. Where half of all
#: sessions are slow, five that are all slow and a fast one now are one case in 64; with three it
#: is one in 16, and each of them hides a slowdown.
ENOUGH_SESSIONS: Final = 5
#: What a fall must exceed, as a share, where fewer sessions are stored. CPU: beyond the falls of
#: unchanged training that were recorded on a two-core virtual machine, 23.1 % (tiny TSM, fp32,
#: 1n1c) and 18.1 % (bf16, 1n2c) between the medians of two runs, five minutes apart; others' CPU
#: share was below 0.4 %, and no time was stolen. GPU: of sessions that differ by 3 %, or have two
#: modes 10 % apart, hardly two are as far apart.
_FAR_CPU: Final = -math.log1p(-0.25)
_FAR_GPU: Final = -math.log1p(-0.15)
#: For throughput and speedup against stored sessions.
THROUGHPUT: Final[Mapping[DeviceKind, Prior]] = {
    "cpu": Prior(run_sd=0.03, session_sd=0.03, enough_sessions=ENOUGH_SESSIONS, far=_FAR_CPU),
    "gpu": Prior(run_sd=0.008, session_sd=0.01, enough_sessions=ENOUGH_SESSIONS, far=_FAR_GPU),
}
#: For plain numbers, whatever they are of.
NUMBERS: Final = Prior(run_sd=0.008, session_sd=0.01)
#: For logs: 90 % of 64 configurations of published reports repeat within this standard deviation.
LOGS: Final = Prior(run_sd=0.017, session_sd=0.006)
#: For logs against stored sessions.
LOGS_AND_STORED: Final = replace(LOGS, enough_sessions=ENOUGH_SESSIONS, far=_FAR_GPU)
#: For runs in pairs, which follow each other at once: a pair differs by the root of 2 times as
#: much. CPU: undisturbed pairs of recorded PyTorch and NumPy training, 1.3 to 4.6 % a pair. GPU:
#: 64 configurations of published reports. Scale of the variances of cases (Smyth 2004, section
#: 6.2). Both runs of a pair are of one session.
PAIRS: Final[Mapping[DeviceKind, Prior]] = {
    "cpu": Prior(run_sd=0.016, session_sd=0.03),
    "gpu": Prior(run_sd=0.003, session_sd=0.006),
}
#: For peak memory; on CPUs it is the resident set, which varies with the allocator.
MEMORY: Final[Mapping[DeviceKind, Prior]] = {
    "cpu": Prior(run_sd=0.015, session_sd=0.015),
    "gpu": Prior(run_sd=0.003, session_sd=0.003),
}


#: For metrics that a marker gates: weak and wide, as times of a start differ more than rates.
FIGURES: Final[Mapping[DeviceKind, Prior]] = {
    "cpu": Prior(run_sd=0.05, session_sd=0.05),
    "gpu": Prior(run_sd=0.03, session_sd=0.03),
}


def prior_of_figure(unit: str, device: DeviceKind) -> Prior:
    """Return the prior of a metric in ``unit``; bytes vary as peak memory does."""
    return MEMORY[device] if unit == "bytes" else FIGURES[device]


def prior_of_throughput(case: Case) -> Prior:
    """Return the prior of a rate against stored sessions."""
    return THROUGHPUT[case.layout.device]
