"""Priors for the noise of each metric, used until a case has enough runs of its own.

They are from recorded repeats, see docs/verdicts.md, weak, and rather wide: a case with few
stored runs is judged by them, a case with many by its own spread. The noise that was learnt of
the machine class (``learn.py``) takes precedence.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.verdict import Prior, Rule

#: For throughput and speedup against stored sessions.
THROUGHPUT: Final[Mapping[DeviceKind, Prior]] = {
    "cpu": Prior(run_sd=0.03, session_sd=0.03),
    "gpu": Prior(run_sd=0.008, session_sd=0.01),
}
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


def of_figure(unit: str, device: DeviceKind) -> Prior:
    """Return the prior of a metric in ``unit``; bytes vary as peak memory does."""
    return MEMORY[device] if unit == "bytes" else FIGURES[device]


#: A fall, as a share, beyond those of unchanged training that were recorded on a two-core virtual
#: machine: 23.1 % (tiny TSM, fp32, 1n1c) and 18.1 % (bf16, 1n2c) between the medians of two runs,
#: five minutes apart; others' CPU share was below 0.4 %, and no time was stolen. Runs of one
#: session varied by 6 and 10 %.
_FAR: Final = 0.25


def of_throughput(case: Case, rule: Rule) -> Prior:
    """Return the prior learnt for this machine class, else the built-in one.

    On CPUs, as long as too few sessions are stored to know how far they differ, it has the
    distance of the recorded virtual machine.
    """
    device = case.layout.device
    prior = rule.prior or THROUGHPUT[device]
    if device != "cpu" or prior.learnt:
        return prior
    return replace(prior, far=-math.log1p(-_FAR), quiet_run_sd=THROUGHPUT["cpu"].run_sd)


def of_pairs(device: DeviceKind, rule: Rule, *, in_turns: bool = False) -> Prior:
    """Return the prior for runs in pairs, by their median iteration.

    Learnt noise is that of launches that follow each other: a pair whose arms took turns shares
    most of it, so that this counts only where it is less than the built-in prior.
    """
    known = rule.prior
    if known is not None and known.median_run_sd is not None:
        known = replace(known, run_sd=known.median_run_sd, run_df=known.median_run_df)
    return _of_pairs(device, known, in_turns=in_turns)


def of_windows_of_pairs(device: DeviceKind, rule: Rule, *, in_turns: bool = False) -> Prior:
    """Return the prior for runs in pairs, by their work over time."""
    return _of_pairs(device, rule.prior, in_turns=in_turns)


def _of_pairs(device: DeviceKind, known: Prior | None, *, in_turns: bool) -> Prior:
    built_in = PAIRS[device]
    if known is None or (in_turns and known.run_sd > built_in.run_sd):
        return built_in
    return known
