"""What is believed of the noise of a metric before the case itself has told enough.

Recorded repeats, see docs/verdicts.md. The built-in priors are weak, and on the wide side: a case
with few stored runs is judged by them, a case with many by its own spread. What a machine class
itself has shown goes before them (``learn.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.noise import Prior
from pytest_dlperf.core.verdict import Rule

THROUGHPUT: Final[Mapping[DeviceKind, Prior]] = {
    "cpu": Prior(run_sd=0.03, session_sd=0.03),
    "gpu": Prior(run_sd=0.008, session_sd=0.01),
}
#: Of the runs of pairs, which follow each other at once: a pair differs by the root of 2 times as
#: much. CPU: undisturbed pairs of recorded PyTorch and NumPy training, 1.3 to 4.6 % a pair. GPU:
#: 64 configurations of published reports. Scale of the variances of cases (Smyth 2004, section
#: 6.2). Sessions are in both runs of a pair.
PAIRS: Final[Mapping[DeviceKind, Prior]] = {
    "cpu": Prior(run_sd=0.016, session_sd=0.03),
    "gpu": Prior(run_sd=0.003, session_sd=0.006),
}
#: On CPUs it is the resident set, which varies with the allocator.
MEMORY: Final[Mapping[DeviceKind, Prior]] = {
    "cpu": Prior(run_sd=0.015, session_sd=0.015),
    "gpu": Prior(run_sd=0.003, session_sd=0.003),
}


def of_throughput(case: Case, rule: Rule) -> Prior:
    """Return what the stored sessions of this machine class tell, else what is built in."""
    return rule.prior or THROUGHPUT[case.layout.device]


def of_pairs(case: Case, rule: Rule) -> Prior:
    """Return the same of runs that are one of a pair each, by their median iteration."""
    known = rule.prior
    if known is None:
        return PAIRS[case.layout.device]
    if known.median_run_sd is None:
        return known
    return replace(known, run_sd=known.median_run_sd, run_df=known.median_run_df)
