"""Our own rule as it is shipped: whole cases judged, against stored sessions and by pairs.

The one place that knows the engine. A rate is taken over a run's whole time, and by its median
iteration too where iterations are known; both are asked, as in a live session.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import numpy as np

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions, Measurement
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import NOT_JUDGED, Rule, Verdict
from pytest_dlperf.judge import more_runs
from pytest_dlperf.judge.creep import case_of_pairs, rule_of_pairs
from pytest_dlperf.judge.stats import family
from pytest_dlperf.judge.two_stages import (
    decided_by_pairs,
    other_sides,
    rule_of_a_stage,
)
from pytest_dlperf.judge.verdict import judge, judge_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_dlperf.core.layout import DeviceKind
    from pytest_dlperf.core.verdict import Judgement
    from verdict_rules.peer import Seconds

#: What an alarm of the throughput may spend of a case's error rate.
ALARM_SHARE: Final = family.throughput_rule(Rule()).alarm_share
_Drawn = TypeVar("_Drawn")
_CANARY: Final = "matmul_gflop_per_s"
_LAYOUT: Final = {"cpu": "1n1c", "gpu": "1n1g"}
CONDITIONS: Final = Conditions(
    window=(50, 150), launcher="torchrun", world_size=1, batch_size_per_device=1,
    unit="iterations", dtype="float32", data="synthetic", parameter_count=1,
    input_shapes=((1,),), options={}, threads_per_rank=1, host_sharing=False, hardware="any",
    version=1,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Iterations a second of one run."""

    by_time: float
    #: The same as ``by_time`` where iterations are not known.
    by_median: float
    #: The canary's matrix product; None where not recorded.
    canary: float | None = None


def runs(seconds: Seconds) -> list[Run]:
    """Return the rates of each run, one a row."""
    rates = zip(1 / np.mean(seconds, axis=1), 1 / np.median(seconds, axis=1), strict=True)
    return [Run(by_time=float(mean), by_median=float(median)) for mean, median in rates]


def stored(
    history: Sequence[Sequence[Run]],
    draw: Callable[[int], list[Run]],
    *,
    rule: Rule,
    device: DeviceKind,
) -> tuple[str, float]:
    """Return the verdict of a session against stored ones, and the runs that it took.

    ``history`` has the runs of each stored session; ``draw(n)`` measures n more.
    """

    def verdict(found: Sequence[Run]) -> Judgement:
        return judged_once(history, found, rule=rule, device=device)

    return _screened(verdict, draw, device)


def judged_once(
    history: Sequence[Sequence[Run]], found: Sequence[Run], *, rule: Rule, device: DeviceKind
) -> Judgement:
    """Return the judgement on the runs ``found`` against stored sessions; no more are measured."""
    return judge(case_of(device), _measurement(found), _baseline(history), rule)


class Decided(NamedTuple):
    """What both stages said of a case."""

    verdict: Verdict
    #: Pairs of runs that were measured; none where stored sessions decided.
    pairs: int = 0


def two_stages(
    history: Sequence[Sequence[Run]],
    now: Sequence[Run],
    pairs: Sequence[tuple[Run, Run]],
    *,
    rule: Rule,
    device: DeviceKind,
) -> Decided:
    """Return the verdict of stored sessions, and of pairs where these leave a case open.

    As many of the runs of ``now`` and of the ``pairs`` (a run before, a run now) are used as the
    looks of a session ask for.
    """
    case, baseline = case_of(device), _baseline(history)
    screened = replace(case, protocol=case.protocol.screening)
    stored, runs = decided(
        screened, lambda count: judge(screened, _measurement(now[:count]), baseline, rule)
    )
    sides = other_sides(screened, _measurement(now[:runs]), stored, baseline, rule)
    if not sides:
        return Decided(stored.verdict)

    def arms(count: int) -> tuple[Measurement, Measurement]:
        before, after = (_measurement(side) for side in zip(*pairs[:count], strict=True))
        return after, before

    with_anchor = sides[0] is not baseline.level[-1]
    paired, count = second_stage(case, arms, rule, with_anchor=with_anchor)
    verdict = decided_by_pairs(stored, paired, against="the stored commit", environment=()).verdict
    return Decided(verdict, count)


def second_stage(
    case: Case,
    arms: Callable[[int], tuple[Measurement, Measurement]],
    rule: Rule,
    *,
    with_anchor: bool,
) -> tuple[Judgement, int]:
    """Return the judgement by pairs with the code of a stored session, and their number.

    ``arms`` returns what so many pairs measured: now, and before. With the code of the anchor they
    are asked for half of the tolerance, and what that leaves open is judged by the whole.
    """
    paired_case = case_of_pairs(case) if with_anchor else case

    def look(count: int, rule: Rule) -> Judgement:
        return judge_pairs(paired_case, *arms(count), rule_of_a_stage(rule))

    asked = rule_of_pairs(rule) if with_anchor else rule
    paired, count = decided(paired_case, lambda count: look(count, asked), in_pairs=True)
    if with_anchor and paired.verdict is Verdict.INCONCLUSIVE:
        paired = look(count, rule)
    return paired, count


def judged_by_looks(
    history: Sequence[Sequence[Run]], now: Sequence[Run], *, rule: Rule, device: DeviceKind
) -> Judgement:
    """Return the judgement of the last look that as many runs as ``now`` has allow."""
    case, count = case_of(device), 0
    judged: Judgement | None = None
    while more := more_runs(case, judged, count):
        if judged is not None and count + more > len(now):
            return judged
        count += more
        judged = judged_once(history, now[:count], rule=rule, device=device)
    assert judged is not None
    return judged


def interleaved(
    draw: Callable[[int], list[tuple[Run, Run]]],
    *,
    rule: Rule,
    device: DeviceKind,
) -> tuple[str, float]:
    """Return the verdict of interleaved pairs, and the pairs that it took.

    ``draw(n)`` measures n more pairs: a run before, a run now.
    """

    def verdict(found: Sequence[tuple[Run, Run]]) -> Judgement:
        before, now = (_measurement(side) for side in zip(*found, strict=True))
        return judge_pairs(case_of(device), now, before, rule)

    return _screened(verdict, draw, device, in_pairs=True)


def _screened(
    verdict: Callable[[Sequence[_Drawn]], Judgement],
    draw: Callable[[int], list[_Drawn]],
    device: DeviceKind,
    *,
    in_pairs: bool = False,
) -> tuple[str, int]:
    drawn: list[_Drawn] = []

    def look(count: int) -> Judgement:
        drawn.extend(draw(count - len(drawn)))
        return verdict(drawn)

    judged, count = decided(case_of(device), look, in_pairs=in_pairs)
    # Whatever is not judged is as open as what is inconclusive.
    is_open = judged.verdict in NOT_JUDGED
    return str(Verdict.INCONCLUSIVE if is_open else judged.verdict), count


def decided(
    case: Case, look: Callable[[int], Judgement], *, in_pairs: bool = False
) -> tuple[Judgement, int]:
    """Return the judgement of the last look, and its runs or pairs; ``look`` judges so many."""
    count = more_runs(case, None, 0, in_pairs=in_pairs)
    judged = look(count)
    while more := more_runs(case, judged, count, in_pairs=in_pairs):
        count += more
        judged = look(count)
    return judged, count


def case_of(device: DeviceKind) -> Case:
    """Return a case on one device, by the protocol that cases have."""
    return Case(
        suite="suite", framework="torch", workload="module:build", precision="fp32",
        layout=Layout.parse(_LAYOUT[device]), batch_size_per_device=1, unit="iterations",
        protocol=Protocol(),
    )  # fmt: skip


def _baseline(history: Sequence[Sequence[Run]]) -> Baseline:
    sessions = tuple(_session(one) for one in history)
    return Baseline(
        case_id="case", machine_class="any", suite="suite", unit="iterations",
        conditions=CONDITIONS, sessions=sessions, anchor=sessions[0],
    )  # fmt: skip


def _session(found: Sequence[Run]) -> Session:
    estimates = (
        {} if _is_rates_alone(found) else {"median_step": tuple(r.by_median for r in found)}
    )
    canaries = [run.canary for run in found if run.canary is not None]
    return Session(
        time="",
        runs=tuple(run.by_time for run in found),
        estimates=estimates,
        canary={_CANARY: statistics.median(canaries)} if canaries else {},
    )


def _is_rates_alone(found: Sequence[Run]) -> bool:
    return all(run.by_time == run.by_median for run in found)


@lru_cache(maxsize=64)
def _summary(run: Run, *, alone: bool) -> RunSummary:
    """Return what a run measured; each look at a case takes its earlier runs again."""
    return RunSummary(
        throughput=run.by_time,
        estimates={} if alone else {"median_step": run.by_median},
        step_seconds=(),
        ranks=(),
        peak_memory_bytes=None,
        time_to_first_step_s=1.0,
        canary={} if run.canary is None else {_CANARY: run.canary},
        others_cpu_share=None,
    )


def _measurement(found: Sequence[Run]) -> Measurement:
    alone = _is_rates_alone(found)
    return Measurement(
        case_id="case",
        unit="iterations",
        conditions=CONDITIONS,
        runs=tuple(_summary(run, alone=alone) for run in found),
    )
