"""Times a rank's training: warm-up, measured window, canary."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple

from pytest_dlperf.core.wire_records import CanaryRecord, MomentRecord
from pytest_dlperf.worker import compiling, host
from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.job import Job
from pytest_dlperf.worker.records import ProgressCounter, RecordWriter
from pytest_dlperf.worker.run_ahead import StepsAhead, steps_ahead
from pytest_dlperf.worker.training_records import Steps, write_training
from pytest_dlperf.worker.turns import Turns


class RunProtocol(NamedTuple):
    """The protocol of one run, as the worker needs it."""

    iterations: int
    warmup: int
    #: Seconds that the warm-up takes at least, from the second iteration on.
    warmup_s: float
    batch_size_per_device: int
    #: What is counted, where the workload has to say its work; else empty.
    uncounted_unit: str
    #: Share by which each measured step is made longer, on the device; 0 for none.
    inject: float


class _Done(NamedTuple):
    """Of each iteration so far: the loss, the wait for data, the work."""

    losses: list[Any]
    waits_s: list[float | None]
    works: list[float]


class Trained(NamedTuple):
    """What a rank's training leaves for what follows it."""

    #: Of all iterations.
    losses: list[float]
    #: Of the measured window.
    laps_s: list[float]
    ahead: StepsAhead


def job_work(job: Job, protocol: RunProtocol) -> float:
    """Return the work of this rank in the iteration that ended.

    Raises ``WorkerFailure`` where nobody said it, and where less was trained than what is counted.
    """
    job.feed.rows.end()
    if job.iteration_work is None:
        unit, batch = protocol.uncounted_unit, protocol.batch_size_per_device
        raise WorkerFailure(
            "work-unknown",
            f"the case counts {unit}, and nothing says how many {unit} a rank trains in one "
            f"iteration: its batch of {batch} counts samples. Say it in the marker (work=...), or "
            f"let the workload call job.work(...), in build or in each step; work={batch} where "
            f"each entry of the batch is one",
        )
    return job.iteration_work


def run_loop(
    framework: Framework,
    step: Callable[[], Any],
    protocol: RunProtocol,
    records: RecordWriter,
    progress: ProgressCounter,
    turns: Turns,
) -> Trained:
    """Train all iterations of ``protocol``, write their spans; return their losses and laps.

    No synchronisation is added between the measured iterations of a turn: on a GPU the laps are
    events, read after the last of them. Raises ``WorkerFailure`` if a step returns no number.
    """
    keep, waited = framework.keep_loss, framework.job.feed.take_wait
    done = _Done([], [], [])
    turns.await_warm_up()
    warm = _warm_up(framework, step, done, protocol, records, progress)
    delay = framework.delay(protocol.inject, _typical_s(warm)) if protocol.inject else None
    framework.reset_peak_memory()
    framework.job.book.start_window()
    timer = framework.timer()
    parts = []
    begun: dict[int, float] = {}
    ended: list[float] = []

    def finished(laps: int) -> None:
        progress.update(protocol.warmup + laps)

    compiled = compiling.sample()
    for turn in turns.split(
        range(protocol.warmup, protocol.iterations), typical_s=_typical_s(warm)
    ):
        framework.synchronise()
        framework.barrier()
        before = host.sample()
        # That takes milliseconds, on each rank others: they begin together
        framework.barrier()
        timer.start()
        begun[len(ended)] = time.perf_counter()
        for _ in turn:
            started_s = time.perf_counter()
            done.losses.append(keep(step()))
            if delay is not None:
                delay(time.perf_counter() - started_s)
            timer.lap()
            done.waits_s.append(waited())
            done.works.append(job_work(framework.job, protocol))
            ended.append(time.perf_counter())
            # What the device did: the host may have queued all steps long before.
            finished(timer.done())
        timer.finish(finished)
        framework.synchronise()
        parts.append(host.window(before, host.sample(), inject=protocol.inject))
    measured = timer.read()
    window_record = host.together(parts)
    window_record["time"] = time.time()
    laps_s = [seconds for seconds, _ in measured]
    ahead = steps_ahead(laps_s, begun, ended)
    window_record["steps_ahead"] = ahead.a_little
    window_record["host_losses"] = any(isinstance(loss, float) for loss in done.losses)
    turns.write(records)
    losses = write_training(
        records,
        Steps([*warm, *measured], done.waits_s, done.works),
        window_record,
        compiled,
        framework.job.book,
        map(framework.loss_value, done.losses),
    )
    return Trained(losses, laps_s, ahead)


def _warm_up(
    framework: Framework,
    step: Callable[[], Any],
    done: _Done,
    protocol: RunProtocol,
    records: RecordWriter,
    progress: ProgressCounter,
) -> list[tuple[float, float]]:
    """Do the warm-up iterations; the first two are watched, the canary runs between them.

    Where they take fewer seconds than the warm-up is to take, more are done before the last of
    them, which leave no span: so that the window begins at the same iteration in every record.
    """
    watches = {0: framework.watch_shapes, 1: framework.watch_arithmetic}
    timer = framework.timer()
    progress.update(0)
    framework.job.feed.rows.forget()
    timer.start()
    end_s = math.inf
    for index in range(protocol.warmup):
        if index == protocol.warmup - 1 and protocol.warmup_s:
            timer.finish(progress.update)
            _warm_up_until(end_s, framework, step, lambda: progress.update(protocol.warmup - 1))
            timer.start()
        with watches.get(index, contextlib.nullcontext)():
            done.losses.append(framework.keep_loss(step()))
        if len(done.losses) == index:  # It could not be looked at
            done.losses.append(framework.keep_loss(step()))
        timer.lap()
        done.waits_s.append(framework.job.feed.take_wait())
        done.works.append(job_work(framework.job, protocol))
        progress.update(timer.done())
        if index == 0:
            timer.finish(progress.update)
            framework.synchronise()
            records.write(first_step=MomentRecord(time=time.time()))
            compiling.first_step_ended()
            # After the first step, so that the time to it is the workload's own; the
            # warm-up that follows restores caches and memory before anything is measured.
            write_canary(framework, records, when="before")
            end_s = time.perf_counter() + protocol.warmup_s
            timer.start()
        elif index == 1 and protocol.warmup > 2:
            # What the canary and the watched iteration needed is not the training's
            framework.release_memory()
    timer.finish(progress.update)
    framework.synchronise()
    return timer.read()


#: Ranks agree this often on whether to go on warming up.
_AGREED_S: Final = 0.25


def _warm_up_until(
    end_s: float, framework: Framework, step: Callable[[], Any], heartbeat: Callable[[], None]
) -> None:
    """Train on until it is ``end_s`` on every rank's ``perf_counter``; all do as many steps.

    ``heartbeat`` is called after every few steps.
    """

    def mean(value: float) -> float:
        return framework.mean_over_ranks(value) if framework.job.world_size > 1 else value

    count = 1
    while mean(float(time.perf_counter() < end_s)) > 0:
        begin_s = time.perf_counter()
        for _ in range(count):
            framework.keep_loss(step())
            framework.job.feed.take_wait()
        framework.synchronise()
        heartbeat()
        step_s = mean(time.perf_counter() - begin_s) / count
        count = max(1, min(2 * count, round(_AGREED_S / step_s)))


def write_canary(
    framework: Framework, records: RecordWriter, *, when: Literal["before", "after"]
) -> None:
    """Measure the canary, and write its record."""
    rates = framework.canary()
    records.write(canary=CanaryRecord(when=when, **rates, time=time.time()))


def _typical_s(warm: list[tuple[float, float]]) -> float:
    """Return the median step of the warm-up, without its first two where it has more."""
    return statistics.median([seconds for seconds, _ in warm[2:] or warm] or [0.0])


def check_loss(values: list[float], rule: str, *, falls_within: int | None) -> None:
    """Raise ``WorkerFailure`` unless every loss is finite and, by ``rule``, the loss fell.

    It fell when, of the first ``falls_within`` iterations (None: of all), the median of the last
    tenth (at least 3) is below that of the first tenth: on one fixed batch training must get there
    within a short run.
    """
    for index, value in enumerate(values):
        if not math.isfinite(value):
            raise WorkerFailure(
                "loss-not-finite",
                f"the loss is {value} at iteration {index}; the run trains nothing, so its "
                "speed means nothing. Lower the learning rate, or look at the loss scaling",
            )
    values = values[:falls_within]
    count = max(3, len(values) // 10)
    first, last = statistics.median(values[:count]), statistics.median(values[-count:])
    if rule == "falls" and not last < first:
        raise WorkerFailure(
            "loss-not-falling",
            f"the loss did not fall: {first:.6g} over the first {count} iterations, {last:.6g} "
            f"over the last {count}. A workload trains on one fixed batch, so it must; if this "
            'one cannot (fresh random data, say), declare loss="finite"',
        )
