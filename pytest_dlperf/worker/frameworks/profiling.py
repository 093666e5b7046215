"""Profile a few steps after the measured window, by the profiler of any framework.

All ranks do the same number of steps, or none: one that waited for another would hang.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol

from pytest_dlperf.core.secret_texts import masked, masked_values, secrets_of
from pytest_dlperf.core.wire_profile import HostStack, LiveMemory, ProfileRecord
from pytest_dlperf.worker import host_stacks
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.step_parts import (
    Interval,
    TraceEvent,
    launches_of,
    operators_of,
    windows_of,
    without_extremes,
)

#: Steps that are profiled: so many where they are long, and more where they are short, since
#: whatever else runs on the machine disturbs a larger share of a few short ones.
STEPS: Final = 5
_MOST_STEPS: Final = 20
_SECONDS: Final = 2.0
#: The annotation around a step, or around all of them.
STEP: Final = "dlperf.step"
#: Events that are kept in memory, a kilobyte or so each; of a trace file, some 300 bytes each.
MOST_EVENTS: Final = 400_000
TRACE_EVENTS: Final = 200_000
_TRACE_BYTES_PER_EVENT: Final = 500
#: Name of the file with the trace.
TRACE: Final = "trace.json.gz"


class Profiler(Protocol):
    """A profiler of a framework, for one recording after another."""

    #: As users know it, such as ``torch.profiler``.
    name: str

    def start(self) -> None:
        """Begin to record."""
        ...

    def annotate(self, name: str) -> AbstractContextManager[Any]:
        """Return what records an event of that name while it is open."""
        ...

    def stop(self) -> list[TraceEvent]:
        """End the recording, and return its events."""
        ...

    def write_trace(self, file: Path) -> None:
        """Write the last recording for a viewer; raise ``OSError`` or ``RuntimeError``."""
        ...

    def live_memory(self, run: Callable[[], None]) -> LiveMemory | None:
        """Return what is allocated at the peak of ``run``; None where that is not known."""
        ...


def profile(
    framework: Framework,
    step: Callable[[], Any],
    profiler: Profiler,
    folder: Path,
    *,
    on_gpu: bool,
) -> ProfileRecord:
    """Return the parts and the operators of 5 to 20 steps, fewer where they are many events.

    The first, profiled step is not kept: it says how long a step is and how many events it has,
    and loads what the profiler needs. An error of the workload's own propagates. Names of the
    program, of its files and of its folders are in a profile: secrets in them are masked.
    """
    record = _profile(framework, step, profiler, folder, on_gpu=on_gpu)
    public_record: ProfileRecord = masked_values(record, secrets_of(os.environ))
    return public_record


def _profile(
    framework: Framework,
    step: Callable[[], Any],
    profiler: Profiler,
    folder: Path,
    *,
    on_gpu: bool,
) -> ProfileRecord:
    first = _profiled(framework, step, profiler, 1, on_gpu=on_gpu)
    if isinstance(first, str):
        return ProfileRecord(problem=first)
    count = max(1, len(first))
    fits = 1.0 if count <= MOST_EVENTS else 0.0
    if _mean(framework, fits) < 1 - 1e-6:
        return ProfileRecord(
            problem=f"a step has {count} events on this rank, and the profile of a step with "
            f"more than {MOST_EVENTS} on any rank is not kept"
        )
    steps = int(_mean(framework, float(_steps(first, on_gpu=on_gpu))) + 1e-3)
    del first
    events = _profiled(framework, step, profiler, steps, on_gpu=on_gpu)
    if isinstance(events, str):
        return ProfileRecord(problem=events)
    windows = without_extremes(_windows(events, steps, on_gpu=on_gpu))
    record = ProfileRecord(
        windows=windows_of(events, windows),
        operators=operators_of(events, windows),
        launches=launches_of(events, windows),
    )
    notes = [] if steps >= STEPS else [f"{steps} of {STEPS} steps, as each has {count} events"]
    if framework.job.rank == 0:
        try:
            record["trace"] = _write_trace(profiler, len(events), folder)
        except (OSError, RuntimeError, ValueError) as error:
            notes.append(f"no trace was written: {error}")
    del events
    is_small = _MEMORY_STEPS * count <= MOST_EVENTS
    if _mean(framework, float(is_small)) < 1 - 1e-6:
        # All ranks do the steps, or none
        notes.append("no allocations were recorded, as a step has too many events on a rank")
    else:
        notes += _add_memory(record, framework, step, profiler)
    step_s = record["windows"][0]["seconds"] / record["windows"][0]["steps"]
    notes += _add_stacks(record, framework, step, step_s, folder)
    if notes:
        record["note"] = "; ".join(notes)
    return record


def _steps(first: Sequence[TraceEvent], *, on_gpu: bool) -> int:
    """Return how many steps like that of ``first`` are profiled on this rank."""
    count = max(1, len(first))
    fits = MOST_EVENTS // count
    if min(fits, TRACE_EVENTS // count) <= STEPS:
        return min(STEPS, fits)
    begin_us, end_us = next((one for one, _ in _windows(first, 1, on_gpu=on_gpu)), (0.0, 0.0))
    in_time = int(_SECONDS * 1e6 / max(1.0, end_us - begin_us))
    return max(STEPS, min(_MOST_STEPS, in_time, fits, TRACE_EVENTS // count))


def _profiled(
    framework: Framework, step: Callable[[], Any], profiler: Profiler, steps: int, *, on_gpu: bool
) -> list[TraceEvent] | str:
    """Return the events of ``steps``; on all ranks why the profiler failed, if it did on one."""
    problem = ""
    try:
        profiler.start()
    except Exception as error:  # noqa: BLE001  # the profiler's own, whatever it is
        problem = _words(profiler, error)
    if failure := _on_any_rank(framework, problem):
        if not problem:
            with contextlib.suppress(Exception):
                profiler.stop()
        return failure
    framework.synchronise()
    with profiler.annotate(STEP) if on_gpu else contextlib.nullcontext():
        for _ in range(steps):
            with contextlib.nullcontext() if on_gpu else profiler.annotate(STEP):
                framework.keep_loss(step())
        framework.synchronise()
    framework.job.feed.take_wait()
    events: list[TraceEvent] = []
    try:
        events = profiler.stop()
    except Exception as error:  # noqa: BLE001  # as above
        problem = _words(profiler, error)
    return _on_any_rank(framework, problem) or events


def _on_any_rank(framework: Framework, problem: str) -> str:
    """Return ``problem``, or that another rank has one; empty if none has."""
    share = _mean(framework, 1.0 if problem else 0.0)
    return problem or ("the profiler failed on another rank" if share > 1e-6 else "")


def _mean(framework: Framework, value: float) -> float:
    return framework.mean_over_ranks(value) if framework.job.world_size > 1 else value


def _words(profiler: Profiler, error: Exception) -> str:
    return f"{profiler.name} failed: {type(error).__name__}: {error}".partition("\n")[0]


def _windows(
    events: Sequence[TraceEvent], steps: int, *, on_gpu: bool
) -> list[tuple[Interval, int]]:
    """Return the windows: one a step, or one for all, which run ahead of each other on a GPU."""
    return [
        ((event.begin_us, event.end_us), steps if on_gpu else 1)
        for event in events
        if event.name == STEP and not event.on_device
    ]


def _write_trace(profiler: Profiler, events: int, folder: Path) -> str:
    """Write a trace and return its file's name; raise ``OSError`` or ``ValueError``."""
    if events > TRACE_EVENTS:
        raise ValueError(f"it would have {events} events, more than {TRACE_EVENTS}")
    if shutil.disk_usage(folder).free < 2 * events * _TRACE_BYTES_PER_EVENT:
        raise ValueError(f"the disk of {folder} is nearly full")
    file = folder / TRACE
    try:
        profiler.write_trace(file)
        # As MAX_TOKENS=131072: with a mask in its own numbers a trace would be no JSON
        secrets = [one for one in secrets_of(os.environ) if not _NUMBER.fullmatch(one)]
        if secrets:
            _mask_trace(file, secrets)
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return file.name


_NUMBER: Final = re.compile(r"[0-9.eE+-]+")


def _mask_trace(file: Path, secrets: Sequence[str]) -> None:
    escaped = [json.dumps(secret)[1:-1] for secret in secrets]
    of_text = [*secrets, *(one for one in escaped if one not in secrets)]
    clean = file.with_name(f"masked.{file.name}")
    try:
        with (
            gzip.open(file, "rt", encoding="utf-8", errors="surrogateescape") as lines,
            gzip.open(clean, "wt", encoding="utf-8", errors="surrogateescape") as written,
        ):
            for line in lines:
                written.write(masked(line, of_text))
        clean.replace(file)
    finally:
        clean.unlink(missing_ok=True)


#: Steps whose allocations are recorded: what a step leaves behind is there several times.
_MEMORY_STEPS: Final = 3


def _add_memory(
    record: ProfileRecord, framework: Framework, step: Callable[[], Any], profiler: Profiler
) -> list[str]:
    """Add what is allocated at the peak, of further steps; return notes."""
    done = 0

    def run() -> None:
        nonlocal done
        for _ in range(_MEMORY_STEPS):
            framework.keep_loss(step())
            done += 1
        framework.synchronise()
        framework.job.feed.take_wait()

    try:
        memory = profiler.live_memory(run)
    except Exception as error:
        if 0 < done < _MEMORY_STEPS:
            raise  # the workload's own
        if done == 0:
            run()  # the other ranks do these steps
        return [f"no allocations were recorded: {_words(profiler, error)}"]
    if memory is not None:
        record["memory"] = memory
    return []


def _add_stacks(
    record: ProfileRecord,
    framework: Framework,
    step: Callable[[], Any],
    step_s: float,
    folder: Path,
) -> list[str]:
    """Add where Python spends its time, of further steps, if py-spy is there; return notes.

    Whether it is there may differ by rank, so the ranks agree on the steps.
    """
    sampler = host_stacks.sampler(folder, framework.job.rank)
    steps = int(_mean(framework, float(host_stacks.steps_of(step_s)) if sampler else 0.0) + 0.5)
    if steps == 0:
        return []
    if sampler is not None:
        sampler.start()
    _mean(framework, 1.0)  # the ranks begin together
    for _ in range(steps):
        framework.keep_loss(step())
    framework.synchronise()
    framework.job.feed.take_wait()
    if sampler is None:
        return []
    try:
        stacks: list[HostStack] = sampler.stop(steps)
    except (OSError, ValueError) as error:
        return [f"no host stacks: {error}"]
    record["stacks"] = stacks
    return []
