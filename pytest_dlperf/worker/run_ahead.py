"""Whether the host runs ahead of its GPU, and what it costs where it does not."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pytest_dlperf.core.wire_records import WaitsRecord, runs_ahead_seldom
from pytest_dlperf.worker.frameworks.base import EventTimer, Framework
from pytest_dlperf.worker.records import RecordWriter

#: Share of a step that is queued at its end where the host is ahead. Not a whole step: CUDA
#: queues about a thousand launches, less than a step of many models has (seen on an H100).
_QUEUED_SHARE: Final = 0.1
#: Steps by which the cost of a host that waits is measured.
_QUEUED_STEPS: Final = 5


class StepsAhead(NamedTuple):
    """In how many measured steps the host was ahead of the device when it ended them."""

    #: By a tenth of the step.
    a_little: int
    #: By a whole step: it certainly waits within none of them.
    a_step: int


def steps_ahead(
    laps_s: Sequence[float], begun: Mapping[int, float], ended: Sequence[float]
) -> StepsAhead:
    """Return in how many of the laps the host was ahead.

    ``begun`` has the host's clock where the device, being idle, began the lap of that number, and
    ``ended`` where the host ended each of them.
    """
    a_little, a_step, device_s = 0, 0, 0.0
    for index, (lap_s, host_s) in enumerate(zip(laps_s, ended, strict=True)):
        device_s = begun.get(index, device_s) + lap_s
        a_little += device_s - host_s > _QUEUED_SHARE * lap_s
        a_step += device_s - host_s > lap_s
    return StepsAhead(a_little, a_step)


def write_wait_cost(
    framework: Framework,
    step: Callable[[], Any],
    records: RecordWriter,
    laps_s: Sequence[float],
    ahead: StepsAhead,
) -> None:
    """Write the record ``waits`` of a host that waits for its GPU in each step; else nothing.

    A host that has nothing queued at the end of its steps waits, or needs as long as the GPU. One
    that has less than a step queued may wait within the step, or for room in the queue of its
    launches: the framework says which, where it can.

    The cost is measured by a few more steps, before each of which the device is kept busy for
    longer than the host needs to queue them: what a step queues before it first waits is then done
    without a gap. What comes after that wait has its gaps still, so the cost is a lower bound.
    Steps of other ranks go on together, so all ranks do it where one of them waits.
    """
    if not isinstance(framework.timer(), EventTimer):
        return  # its laps wait, by themselves
    record, count, lap_s = WaitsRecord(), len(laps_s), statistics.median(laps_s)
    if not _on_any_rank(framework, runs_ahead_seldom(ahead.a_little, count)):
        if not _on_any_rank(framework, runs_ahead_seldom(ahead.a_step, count)):
            return
        within = _within(framework, step)
        if _on_any_rank(framework, isinstance(within, str)):
            records.write(waits=WaitsRecord(problem=str(within or "another rank does no more")))
            return
        if not _on_any_rank(framework, within is True):
            return
        record["within"] = within is True
    try:
        busy = framework.delay(1.5, lap_s)
        times_s = [_queued_s(framework, step, lambda: busy(lap_s)) for _ in range(_QUEUED_STEPS)]
    except Exception as error:  # noqa: BLE001  # the workload's own: it was asked for no more steps
        records.write(waits=WaitsRecord(problem=f"{type(error).__name__}: {error}"))
        return
    record["step_seconds"], record["queued_seconds"] = lap_s, statistics.median(times_s)
    records.write(waits=record)


def _within(framework: Framework, step: Callable[[], Any]) -> bool | str | None:
    """Return whether the host waits within a step; None: not known; a text: it does no more."""
    try:
        within = framework.waits_within(step)
    except Exception as error:  # noqa: BLE001  # the workload's own, as below
        return f"{type(error).__name__}: {error}"
    framework.job.feed.take_wait()
    return within


def _on_any_rank(framework: Framework, is_so: bool) -> bool:
    if framework.job.world_size == 1:
        return is_so
    return framework.mean_over_ranks(float(is_so)) > 0


def _queued_s(
    framework: Framework, step: Callable[[], Any], keep_busy: Callable[[], None]
) -> float:
    framework.synchronise()
    timer = framework.timer()
    keep_busy()
    timer.start()
    framework.keep_loss(step())
    timer.lap()
    framework.job.feed.take_wait()
    [(seconds, _)] = timer.read()
    return seconds
