"""Measure a pair of runs in lock-step: both arms live at once, and take turns in their windows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import Run
from pytest_dlperf.flow.runner import Launched, Runner, RunWithFacts, launch_again
from pytest_dlperf.launch.process.execute import execute_in_turns
from pytest_dlperf.launch.process.referee import Window
from pytest_dlperf.measure.gpu_watch import GpuWatch

#: Each arm waits while the other one computes.
_LONGER: Final = 2


class ArmFailedError(CaseError):
    """The run of one arm failed; ``side`` says which, ``timed_out`` whether it was too slow."""

    def __init__(self, error: CaseError, side: str, *, timed_out: bool) -> None:
        super().__init__(str(error))
        self.side = side
        self.timed_out = timed_out


def cannot_take_turns(case: Case, runner: Runner) -> str:
    """Return why the arms of ``case`` cannot be in lock-step; empty if they can."""
    if case.command:
        return "a program paces its own steps"
    if runner.bench.policy.data is not None:
        return "the ranks of one arm would read data ahead while they wait"
    if case.layout.nodes > 1 or runner.target(case).hosts:
        return "the arms of a case on other hosts, or on several, cannot be given turns"
    return ""


def launch_in_turns(
    case: Case, runners: Mapping[str, Runner], number: int, *, session: str, scaling: bool
) -> dict[str, RunWithFacts]:
    """Launch run ``number`` of both arms at once, and return their runs by side.

    With ``scaling`` they sample facts about scaling, after both windows and one after the other.
    The time of the pair is shared by its runs. Raises ``ArmFailedError`` if one of them failed;
    the other one is then ended.
    """
    sides = list(runners)
    first = runners[sides[0]]
    window = Window(
        ranks=case.world_size, iterations=case.protocol.iterations - case.protocol.warmup
    )
    order = random.Random(f"{case.id} {session} {number}")
    runs: dict[str, Run] = {}
    failed = sides[0]

    def launch() -> Run:
        nonlocal failed
        plans = [runners[side].plan(case, number, scaling=scaling, turns=True) for side in sides]
        plans = [replace(plan, timeout_s=_LONGER * plan.timeout_s) for plan in plans]
        watches = [
            GpuWatch(case, plan, other_arm=other.workdir)
            for plan, other in zip(plans, reversed(plans), strict=True)
        ]

        def tick(folder: Path) -> None:
            for plan, watch, side in zip(plans, watches, sides, strict=True):
                if folder == Path(plan.records):
                    watch.tick(folder)
                    runners[side].bench.watcher.tick(case, folder)

        ended = execute_in_turns(plans, window, order, lease=first.lease, on_tick=tick)
        took_s = max(run.elapsed_s for run in ended.runs) / len(sides)
        shared = (replace(run, elapsed_s=took_s) for run in ended.runs)
        runs.update(zip(sides, shared, strict=True))
        failed = sides[ended.failed or 0]
        return runs[failed]

    launched = launch_again(
        case,
        launch,
        is_allowed=lambda: first.has_time([]),
        report=lambda what: first.bench.watcher.notice(case, what),
    )
    found: dict[str, RunWithFacts] = {}
    for side in sorted(sides, key=lambda side: side != failed):  # its error is the cause
        alone = Launched(run=runs[side], failed=(), is_given_up=False)
        try:
            found[side] = runners[side].read(case, launched if side == failed else alone)
            if not found[side][0].turns:
                raise CaseError(f"{case.id}: its ranks took no turns; see {runs[side].log}")
        except CaseError as error:
            raise ArmFailedError(error, side, timed_out=runs[side].timed_out) from error
    return found
