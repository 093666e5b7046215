"""Screen, then confirm: how many more runs a case needs, and over what errors are split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pytest_dlperf.core.case import Case, Protocol
from pytest_dlperf.core.noise import Prior
from pytest_dlperf.core.verdict import GOOD, Judgement, Rule, Verdict
from pytest_dlperf.judge.stats import priors

#: Runs of the first look: fewer say too little about their own spread.
_FIRST: Final = 3
#: Where the machine class has told its noise, the spread is known before the first run.
_FIRST_KNOWN: Final = 2
#: Unless its cases differ in their noise: then what is known of all says little of one.
_ALIKE_DF: Final = 10.0
#: The share of an alarm's error rate that is spent before the last look: that one sees most.
_EARLY: Final = 0.2
#: Runs that tell of scaling, so that a slow rank is told from noise.
_TELLING: Final = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Spending:
    """Which share of the error rates one look at a case may spend."""

    certify: float
    alarm: float


#: There is one look at what is judged, and no more.
ONE_LOOK: Final = Spending(certify=1.0, alarm=1.0)


def looks(protocol: Protocol, prior: Prior) -> tuple[int, ...]:
    """Return the numbers of runs after which a case is judged, and may be done."""
    if not protocol.adaptive:
        return (protocol.runs,)
    is_known = prior.learnt and prior.run_df >= _ALIKE_DF
    first = _FIRST_KNOWN if is_known else _FIRST
    counts = {min(first, protocol.runs), protocol.runs, protocol.max_runs}
    return tuple(sorted(counts))


def spending(protocol: Protocol, measured: int, prior: Prior) -> Spending:
    """Return what a look at ``measured`` runs may spend.

    Every look may certify, at the same rate. The first of several never fails a case, and the
    last gets most of the alarm's rate (Pocock and O'Brien-Fleming are the extremes).
    """
    counts = looks(protocol, prior)
    alarms = len(counts) - 1
    if alarms < 2:
        return Spending(certify=1 / len(counts), alarm=1.0)
    is_last = measured >= counts[-1]
    alarm = 1 - _EARLY if is_last else _EARLY / (alarms - 1)
    return Spending(certify=1 / len(counts), alarm=alarm)


def more_runs(case: Case, judgement: Judgement | None, measured: int, rule: Rule) -> int:
    """Return how many further runs to launch now, 0 when the case is done.

    ``judgement`` is that of the runs so far, None where there is nothing to judge against.
    A certified case is done at any look, and so is a wrong one. A slow one is done only after
    fresh runs have confirmed it. A case that cannot be compared gets the protocol's runs, and
    no more.
    """
    protocol = case.protocol
    counts = looks(protocol, priors.of_throughput(case, rule))
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


def samples_scaling(case: Case, judgement: Judgement | None, told: int) -> bool:
    """Return whether the next run of ``case`` samples facts about scaling, as ``told`` runs did.

    They take about a second, and nothing asks for them while a case passes: on CPUs, where CPU
    seconds tell every run's ranks apart, the first run samples them, and so do those that follow
    a look at a case that may be slow. The first three, where no further look follows, or on GPUs.
    """
    may_look_again = case.protocol.adaptive and case.layout.device == "cpu"
    if may_look_again and judgement is not None:
        return told == 0 or judgement.verdict in {Verdict.REGRESSED, Verdict.INCONCLUSIVE}
    return told < (1 if may_look_again else _TELLING)
