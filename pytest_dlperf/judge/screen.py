"""Decides after each look at a case how many more runs it needs, and what error rate is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.verdict import GOOD, Judgement, Verdict

#: Runs of the first look; with fewer their spread is too uncertain.
_FIRST: Final = 3
#: The share of a certificate's error rate at each look, by their number. Looks share most of their
#: runs: of normal values, three of these spend 0.75 of it; four 0.77 where the last is at 10
#: pairs, and 0.95 where it is at 100.
_CERTIFY: Final = {1: 1.0, 2: 1 / 2, 3: 1 / 3, 4: 0.3}
#: The shares of an alarm's error rate at the looks that may fail a case, by their number. The last
#: one has most of it, as it detects most. As looks share runs, three of these spend 0.9 to 1.0 of
#: that rate where the last is at 10 pairs, and 1.06 at most where it is at 100: of normal values
#: that are slower by just the min effect.
_ALARM: Final = {1: (1.0,), 2: (0.2, 0.8), 3: (0.2, 0.1, 0.8)}
#: A pair takes long: there is a look at pairs half-way between the protocol's runs and the most,
#: where these differ by so many.
_FAR_APART: Final = 4
#: Runs that sample scaling, so that a slow rank can be distinguished from noise.
_SCALING_RUNS: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """The shares of the error rates that one look at a case may spend."""

    certify: float
    alarm: float


#: For numbers that are judged once.
ONE_LOOK: Final = Spending(certify=1.0, alarm=1.0)


def looks(protocol: Protocol, *, in_pairs: bool = False) -> tuple[int, ...]:
    """Return the numbers of runs after which a case is judged, and possibly finished.

    ``in_pairs``: of pairs of runs.
    """
    if not protocol.adaptive:
        return (protocol.runs,)
    counts = {min(_FIRST, protocol.runs), protocol.runs, protocol.max_runs}
    if in_pairs and protocol.max_runs - protocol.runs >= _FAR_APART:
        counts.add((protocol.runs + protocol.max_runs) // 2)
    return tuple(sorted(counts))


def spending(protocol: Protocol, measured: int, *, in_pairs: bool = False) -> Spending:
    """Return the error rates that a look at ``measured`` runs, or pairs, may spend.

    Every look may certify, at the same rate. The first of several never fails a case, and the
    last one gets most of the alarm's rate (between Pocock and O'Brien-Fleming).
    """
    counts = looks(protocol, in_pairs=in_pairs)
    may_fail = counts[1:] or counts
    done = sum(measured >= count for count in may_fail)
    alarm = _ALARM[len(may_fail)][max(0, done - 1)]
    return Spending(certify=_CERTIFY[len(counts)], alarm=alarm)


def looked(case: Case, measurement: Measurement) -> Spending:
    """Return the error rates of the look at all runs that ``measurement`` has."""
    return spending(case.protocol, len(measurement.runs))


def more_runs(
    case: Case, judgement: Judgement | None, measured: int, *, in_pairs: bool = False
) -> int:
    """Return how many further runs, or ``in_pairs`` pairs, to launch now; 0 when it is done.

    ``judgement`` is that of the runs so far, None where there is nothing to judge against.
    A case that is certified, or in error, is done at any look. A slow one is done only after
    fresh runs have confirmed it. A case that cannot be compared gets just the protocol's runs.
    """
    protocol = case.protocol
    counts = looks(protocol, in_pairs=in_pairs)
    if measured < counts[0]:
        return counts[0] - measured
    verdict = None if judgement is None else judgement.verdict
    if verdict in GOOD or verdict is Verdict.ERROR:
        return 0
    if verdict is Verdict.REGRESSED and measured >= counts[min(1, len(counts) - 1)]:
        return 0
    if verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE}:
        return next((count - measured for count in counts if count > measured), 0)
    return max(0, protocol.runs - measured)


def has_looked(case: Case, measured: int) -> bool:
    """Whether as many runs are measured as the first look at the case needs."""
    return measured >= looks(case.protocol)[0]


def samples_scaling(case: Case, judgement: Judgement | None, sampled: int) -> bool:
    """Whether the next run of ``case`` samples its scaling; ``sampled`` runs have done so.

    It takes about a second, and is not needed while a case passes. On CPUs, where the CPU seconds
    of every run show its slow ranks, the first run samples, and so do the runs after a look at a
    case that may be slow. On GPUs, or where no further look follows, the first three do.
    """
    may_look_again = case.protocol.adaptive and case.layout.device == "cpu"
    if may_look_again and judgement is not None:
        return sampled == 0 or judgement.verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE}
    return sampled < (1 if may_look_again else _SCALING_RUNS)
