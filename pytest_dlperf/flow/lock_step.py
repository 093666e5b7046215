"""Measure a pair of runs in lock-step: both arms live at once, and take turns in their windows."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.layout import DeviceKind
from pytest_dlperf.core.option_names import OptionNames
from pytest_dlperf.core.protocol import PROTOCOLS
from pytest_dlperf.core.run import EndReason, LaunchPlan, MeasuredRun, Problem, Run, RunSummary
from pytest_dlperf.core.wire import TURN_S
from pytest_dlperf.core.wire_records import TurnsRecord
from pytest_dlperf.flow.log_unit import format_of
from pytest_dlperf.flow.runner import Launched, Runner, launch_again
from pytest_dlperf.flow.timed_turns import (
    FEWEST_TURNS,
    LONGEST_TURN_S,
    ByTime,
    OtherTurnsError,
    seconds_of_a_turn,
    too_few,
    turns_that_count,
)
from pytest_dlperf.launch.process.execute import execute_in_turns
from pytest_dlperf.launch.turns.by_time import TimedTurns
from pytest_dlperf.launch.turns.referee import TurnsPlan
from pytest_dlperf.measure.exhausted import is_for_room
from pytest_dlperf.measure.gpu_watch import GpuWatch
from pytest_dlperf.measure.records import read_records
from pytest_dlperf.measure.shared_drift import with_shared_drift

if TYPE_CHECKING:
    from pytest_dlperf.measure.logs.turns import Cut

#: Each arm waits while the other one computes.
_LONGER: Final = 2
#: CPU seconds a second of waiting above which ranks work while they wait, as those of a container
#: may that cannot be frozen: loaders that read ahead would hide that they became slower.
_WORKS: Final = 0.25
#: Seconds of a turn. Between unchanged arms of tiny TSM on a shared two-core virtual machine, 200
#: iterations differed by 14 and 17 % in turns of 0.5 and 1.5 s, by 5 % in these.
_TURN_S: Final[Mapping[DeviceKind, float]] = {"cpu": 0.15, "gpu": TURN_S}
#: Seconds of a window on CPUs that are aimed at where nobody gave another one than a protocol's.
#: Pairs with windows of a second varied by 5 to 8 % there and those with six seconds by 2 to 3 %;
#: the launches and builds of a pair took six seconds themselves.
WINDOW_S: Final = 5.0
_MOST_ITERATIONS: Final = 1000
#: The measured steps of one arm take this share of the timeout at most.
_OF_TIMEOUT: Final = 0.25
#: Turns by time that a window is to have room for, over the fewest: start-ups differ, and a turn
#: counts where both arms have it.
_MORE_TURNS: Final = 4
#: A window that would become fewer times as long is left as it is.
_WORTH: Final = 1.5
_FIRST_STEP: Final = "time_to_first_step"
#: Ranks of a program come to their first step together, also where one of them prepares the data.
_MARKS_WITHIN_S: Final = 300.0
#: Why launches alternate whose logs print running means.
_RUNNING: Final = (
    "its log prints running means, and what is new in one of them is known by the digits of two"
)
#: Fewer CPU seconds than this are those of reading the counters, in the shortest windows.
_OF_COUNTERS_S: Final = 0.1


#: The second half of the warm-up, in which no turn has begun, shows how long steps wait for data
#: where nothing stands still. Fewer steps than these show nothing.
_FEWEST_ALONE: Final = 8
#: Waits that are shorter in turns by this share of a step, and by this factor, are served while
#: the arm is frozen.
_SERVED: Final = 0.1
_SERVED_FACTOR: Final = 1.5


class ArmFailedError(CaseError):
    """The run of one arm failed; ``side`` says which."""

    def __init__(self, error: CaseError, side: str, options: OptionNames) -> None:
        advice = "Both arms were alive at once"
        if alternating := options.typed("pairs=alternating"):
            advice += f"; if either trains well alone, {alternating} launches them in turn"
        super().__init__(
            error.sentence,
            subject=error.subject,
            remarks="\n".join(filter(None, (error.remarks, f"{advice}."))),
        )
        self.side = side


class DoNotFitError(Exception):
    """Both arms at once are not possible, and the message says why; one after the other may be."""


def cannot_take_turns(case: Case) -> str:
    """Return why the arms of ``case`` cannot be in lock-step; empty if they can."""
    if any(gate.name == _FIRST_STEP for gate in case.metrics):
        return f"{_FIRST_STEP} is gated, and an arm that waits for its turn to warm up has none"
    return _cannot_by_time(case) if case.log_format else ""


def _cannot_by_time(case: Case) -> str:
    """Return why arms whose logs alone are read cannot take turns; empty if they can."""
    if case.layout.device == "gpu":
        return (
            "its log alone is read, so that turns would end within steps, and kernels that are "
            "queued go on while the host is frozen"
        )
    fmt = format_of(case)
    return _RUNNING if fmt is not None and fmt.averaging == "running" else ""


def with_longer_window(case: Case, pair: Mapping[str, MeasuredRun]) -> Case | None:
    """Return ``case`` with a window of some seconds, by the steps of ``pair``.

    The faster arm counts: what slowed the other one may be over. None where it has such a window,
    on GPUs, where its marker or the command line gave another one than a protocol's, and where a
    program is not told how long it is to train.
    """
    return _with_window_of(case, [_typical_s(run.summary) for run in pair.values()], WINDOW_S)


def _typical_s(run: RunSummary) -> float:
    """Return the seconds of a step in turns: the mean where data come in bursts."""
    steps_s = run.step_seconds[run.turns[0] :]
    return statistics.fmean(steps_s) if run.waits_for_data else statistics.median(steps_s)


def _with_window_of(case: Case, steps_s: Sequence[float], window_s: float) -> Case | None:
    """Return ``case`` with a window of ``window_s``, as ``with_longer_window`` does."""
    protocol = case.protocol
    if case.command and not any("{iterations}" in word for word in case.command):
        return None
    windows = {standard.window for standard in PROTOCOLS.values()}
    is_given = protocol.declared_window is not None or protocol.window not in windows
    if is_given or case.layout.device != "cpu":
        return None
    first, end = protocol.window
    longest_s = _OF_TIMEOUT * protocol.timeout_s
    wanted = math.ceil(window_s / min(steps_s))
    count = min(_MOST_ITERATIONS, wanted, math.floor(longest_s / max(steps_s)))
    if count < _WORTH * (end - first):
        return None
    longer = replace(protocol, iterations=first + count, lengthened_from=end)
    return replace(case, protocol=longer)


def turns_by_time(case: Case) -> ByTime:
    """Return the turns by time of pairs of ``case``, before a trial."""
    return ByTime(_TURN_S[case.layout.device])


def launch_in_turns(
    case: Case,
    runners: Mapping[str, Runner],
    number: int,
    *,
    session: str,
    scaling: bool,
    by_time: ByTime | None,
) -> dict[str, MeasuredRun]:
    """Launch run ``number`` of both arms at once, and return their runs by side.

    With ``scaling`` they sample facts about scaling, after both windows and one after the other.
    Turns are given ``by_time``, or by steps. The time of the pair is shared by its runs. Raises
    ``ArmFailedError`` if one of them failed, and the other one is then ended; ``DoNotFitError`` if
    one had no room, or did not wait idle; ``OtherTurnsError`` if the pair was a trial.
    """
    order = random.Random(f"{case.id} {session} {number}")
    sides = order.sample(list(runners), len(runners))
    first = runners[sides[0]]
    by_steps = TurnsPlan(
        ranks=case.ranks,
        iterations=_iterations(case),
        turn_s=_TURN_S[case.layout.device],
        marks_within_s=_MARKS_WITHIN_S if case.command else None,
    )
    runs: dict[str, Run] = {}
    moving: dict[str, str] = {}
    failed = sides[0]

    def launch() -> Run:
        nonlocal failed
        folder = f"run{number}"
        marks = by_time is None
        plans = [runners[side].plan(case, folder, scaling=scaling, turns=marks) for side in sides]
        _check_hosts(plans, by_time)
        plans = [replace(plan, timeout_s=_LONGER * plan.timeout_s) for plan in plans]
        watches = [
            GpuWatch(case, plan, other_arm=other_plan.workdir)
            for plan, other_plan in zip(plans, reversed(plans), strict=True)
        ]

        def tick(folder: Path) -> None:
            for plan, watch, side in zip(plans, watches, sides, strict=True):
                if folder == Path(plan.records):
                    watch.tick(folder)
                    runners[side].bench.watcher.tick(case, folder)

        turns_plan = by_steps if by_time is None else _timed_turns(case, plans, by_time)
        ended = execute_in_turns(plans, turns_plan, order, lease=first.lease, on_tick=tick)
        runs.update(zip(sides, ended.runs, strict=True))
        moving.update(zip(sides, ended.moving, strict=True))
        failed = sides[ended.failed or 0]
        if ended.fault:
            error = CaseError(ended.fault, subject=case.id)
            raise ArmFailedError(error, failed, first.bench.policy.options)
        return runs[failed]

    launched = launch_again(
        case,
        launch,
        is_allowed=first.has_time,
        report=lambda what: first.bench.watcher.notice(case, what),
    )
    if by_time is not None:
        runs = with_counted_turns(case, runs, moving, by_time, number)
        launched = replace(launched, run=runs[failed])
    else:
        _check_marks(case, runs[failed])
    measured: dict[str, MeasuredRun] = {}
    for side in sorted(sides, key=lambda side: side != failed):  # its error is the cause
        alone = Launched(run=runs[side], failed=(), is_given_up=False)
        launched_side = launched if side == failed else alone
        try:
            measured[side] = _read(case, runners[side], launched_side, moving[side])
        except CaseError as error:
            raise ArmFailedError(error, side, first.bench.policy.options) from error
    took_s = max(run.elapsed_s for run in runs.values()) / len(sides)
    pair: dict[str, MeasuredRun] = {}
    for (side, own_run), other_run in zip(
        measured.items(), reversed(measured.values()), strict=True
    ):
        summary = with_shared_drift(own_run.summary, other_run.summary, case.layout.device)
        pair[side] = own_run._replace(summary=replace(summary, elapsed_s=took_s))
    return pair


def _timed_turns(case: Case, plans: Sequence[LaunchPlan], by_time: ByTime) -> TimedTurns:
    # It reads logs, with NumPy, whose import takes a tenth of a second
    from pytest_dlperf.flow.user_program import is_warm, last_print_ns

    return TimedTurns(
        by_time.turn_s,
        lambda index: is_warm(case, plans[index]),
        lambda index: last_print_ns(plans[index]),
    )


def _check_hosts(plans: Sequence[LaunchPlan], by_time: ByTime | None) -> None:
    """Raise ``DoNotFitError`` where turns are by time, and logs come from other hosts."""
    if by_time is not None and any(plan.nodes for plan in plans):
        raise DoNotFitError("its log comes from other hosts, later than it is printed")


def _check_marks(case: Case, run: Run) -> None:
    """Raise ``OtherTurnsError`` if a program came to its end, and marked no step on its way."""
    if case.command and run.exit_code == 0 and not read_records(Path(run.plan.records)):
        if why := _cannot_by_time(case):
            raise DoNotFitError(f"it marks no steps; {why}")
        message = "it marks no steps, so that turns are given by time; this pair was a trial"
        raise OtherTurnsError(message, turns_by_time(case), case)


def with_counted_turns(
    case: Case, runs: Mapping[str, Run], moving: Mapping[str, str], by_time: ByTime, number: int
) -> dict[str, Run]:
    """Return the runs of pair ``number`` with the turns by time that count.

    Those of a launch that did not come to its end are unchanged.

    Raises ``DoNotFitError`` where they are too few, or their times are not those of the turns
    alone; ``OtherTurnsError`` where turns are to be longer.
    """
    from pytest_dlperf.flow.user_program import cut_log

    if any(run.exit_code != 0 or run.timed_out for run in runs.values()):
        return dict(runs)
    if what := next(filter(None, moving.values()), ""):
        raise DoNotFitError(f"it cannot be frozen ({what})")
    if any(len(run.timed_turns) < FEWEST_TURNS for run in runs.values()):
        raise DoNotFitError(f"it ends within {FEWEST_TURNS} turns of {by_time.turn_s:g} s")
    cuts = [cut for run in runs.values() if (cut := cut_log(case, run)) is not None]
    if len(cuts) < len(runs):
        # Reading it whole says what is wrong
        return {side: replace(run, timed_turns=()) for side, run in runs.items()}
    if any(cut.is_running for cut in cuts):
        raise DoNotFitError(_RUNNING)
    if not all(cut.iterations and cut.seconds for cut in cuts):
        raise DoNotFitError(
            "its measured records came all at once, as those of buffered output do"
        )
    if number > 1:
        # A trial is before the first pair that counts
        by_time = by_time._replace(is_tried=True)
    counted = turns_that_count(cuts)
    if isinstance(counted, str) or not by_time.is_tried:
        # Later on as well: a machine that became slower writes fewer records in a turn
        _check_trial(case, cuts, by_time)
    if isinstance(counted, str):
        raise DoNotFitError(counted)
    return {
        side: replace(
            run,
            timed_turns=tuple(
                turn._replace(
                    is_within=turn.number in counted.within,
                    counts=turn.number in counted.recorded,
                )
                for turn in run.timed_turns
            ),
        )
        for side, run in runs.items()
    }


def _check_trial(case: Case, cuts: Sequence[Cut], by_time: ByTime) -> None:
    """Raise ``OtherTurnsError`` if turns, or the window, are to be longer than those of ``cuts``.

    Raises ``DoNotFitError`` where that does not help.
    """
    turn_s = seconds_of_a_turn(by_time.turn_s, cuts)
    window_s = _MORE_TURNS * FEWEST_TURNS * turn_s
    steps_s = [cut.step_s for cut in cuts]
    tried = case
    if not by_time.is_tried and _iterations(case) * min(steps_s) < window_s:
        tried = _with_window_of(case, steps_s, max(WINDOW_S, window_s)) or case
    if turn_s == by_time.turn_s and tried is case:
        return
    if _iterations(tried) * min(steps_s) < window_s / _MORE_TURNS:
        raise DoNotFitError(too_few(cuts))
    if turn_s > LONGEST_TURN_S:
        raise DoNotFitError(
            f"turns of its log would take {turn_s:.2g} s, and an arm that is frozen for two of "
            f"more than {LONGEST_TURN_S:g} s may miss heartbeats of its libraries"
        )
    raise OtherTurnsError(
        f"turns of its log are to take {turn_s:.2g} s, in windows of {_iterations(tried)} "
        "iterations; this pair was a trial",
        ByTime(turn_s, is_tried=True),
        tried,
    )


def _iterations(case: Case) -> int:
    """Return the iterations of a window."""
    return case.protocol.iterations - case.protocol.warmup


def _read(case: Case, runner: Runner, launched: Launched, moving: str) -> MeasuredRun:
    """Return what a run of a pair measured; raise ``CaseError``, or ``DoNotFitError``.

    ``moving`` is what could not be frozen.
    """
    records = read_records(Path(launched.run.plan.records))
    try:
        measured = runner.read(case, launched)
    except CaseError as error:
        codes = {rank.by_kind["failure"]["code"] for rank in records if rank.wrote("failure")}
        has_no_room = is_for_room(str(error)) or launched.run.oom_kills
        cannot = "turns-unreachable" in codes or launched.run.end.reason is EndReason.NO_TURNS
        if (has_no_room and not launched.run.timed_out) or cannot:
            cause = error.first_line(below=case.id).rstrip(".")
            raise DoNotFitError(f"both arms at once failed ({cause})") from error
        raise
    summary = measured.summary
    if not summary.turns:
        raise CaseError(f"its ranks took no turns; see {launched.run.log}", subject=case.id)
    if any(_works(rank.by_kind["turns"]) for rank in records if rank.wrote("turns")):
        why = f" ({moving})" if moving else ""
        raise DoNotFitError(f"the processes of a rank work while it waits, unfrozen{why}")
    if moving:
        message = f"not all of it could be frozen while the other arm had its turns: {moving}"
        note = Problem(code="unfrozen", message=message)
        summary = replace(summary, problems=(*summary.problems, note))
    # A training that waited for its turn to warm up has none
    metrics = {name: value for name, value in summary.metrics.items() if name != _FIRST_STEP}
    return measured._replace(summary=replace(summary, time_to_first_step_s=None, metrics=metrics))


def check_readers(runs: Sequence[RunSummary], warmup: int) -> None:
    """Raise ``DoNotFitError`` if steps waited longer for data before the turns than in them.

    ``runs`` are those of one arm so far. A reader that waits for a clock, such as one of an object
    store, has its answers by the next turn: how long they took is in no turn. The longest wait of
    all runs does not count: a machine that stood still once is no reader.
    """
    alone_s = sorted(
        itertools.chain.from_iterable(
            run.data_wait_seconds[(warmup + 1) // 2 : warmup] for run in runs
        )
    )[:-1]
    if len(alone_s) < _FEWEST_ALONE:
        return
    wait_s = statistics.fmean(alone_s)
    in_turns_s = _mean_s(run.data_wait_seconds[warmup:] for run in runs)
    step_s = _mean_s(run.step_seconds[warmup:] for run in runs)
    if wait_s - in_turns_s < _SERVED * step_s or wait_s < _SERVED_FACTOR * in_turns_s:
        return
    raise DoNotFitError(
        f"its reader is served while it is frozen: steps waited {1000 * wait_s:.3g} ms for data "
        f"in the warm-up, and {1000 * in_turns_s:.3g} ms in turns"
    )


def _mean_s(runs: Iterable[Sequence[float]]) -> float:
    return statistics.fmean(itertools.chain.from_iterable(runs))


def _works(turns: TurnsRecord) -> bool:
    return turns["waited_cpu_seconds"] > max(_OF_COUNTERS_S, _WORKS * turns["waited_seconds"])
