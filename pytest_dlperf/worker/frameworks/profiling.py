"""Profile a few steps after the measured window, by the profiler of any framework.

All ranks do the same number of steps, or none: one that waited for another would hang.
"""

from __future__ import annotations

import contextlib
import gc
import gzip
import json
import os
import re
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from pytest_dlperf.core.secret_texts import masked, masked_values, secrets_of
from pytest_dlperf.core.wire_profile import (
    FEWEST_STEPS,
    MEMORY_STEPS,
    MOST_STEPS,
    HostStack,
    LiveMemory,
    ProfiledSteps,
    ProfileRecord,
    steps_in_profile,
    steps_in_stacks,
)
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

    def live_memory(self) -> Callable[[], LiveMemory] | None:
        """Begin to record allocations; return what ends that, with those at the peak.

        None where they are not known.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """A rank, and how it agrees with the others."""

    rank: int
    #: Waits until the device has done all that was asked of it.
    synchronise: Callable[[], None]
    #: Returns the mean over all ranks; the value itself where they do not ask each other.
    mean: Callable[[float], float]
    #: So many steps; None where the ranks agree on them.
    steps: ProfiledSteps | None = None


#: A profile that goes on with each step that is done after a ``yield``. It yields None until the
#: steps are profiled, then the record as it is before the further steps.
Profiling = Generator[ProfileRecord | None, None, ProfileRecord]


def profile(
    framework: Framework,
    step: Callable[[], Any],
    profiler: Profiler,
    folder: Path,
    *,
    on_gpu: bool,
) -> ProfileRecord:
    """Return the parts and the operators of 5 to 20 steps, fewer where they are many events.

    An error of the workload's own propagates.
    """
    job = framework.job
    ranks = Ranks(
        rank=job.rank,
        synchronise=framework.synchronise,
        mean=framework.mean_over_ranks if job.world_size > 1 else float,
    )
    profiling = profiled_steps(ranks, profiler, folder, on_gpu=on_gpu)
    while True:
        try:
            next(profiling)
        except StopIteration as end:
            record: ProfileRecord = end.value
            return public(record)
        framework.keep_loss(step())
        job.feed.take_wait()


def public(record: ProfileRecord) -> ProfileRecord:
    """Return ``record`` with secrets masked in the names of the program, its files and folders."""
    public_record: ProfileRecord = masked_values(record, secrets_of(os.environ))
    return public_record


def profiled_steps(ranks: Ranks, profiler: Profiler, folder: Path, *, on_gpu: bool) -> Profiling:
    """Profile 5 to 20 steps, which the caller does: one each time that this yields.

    The first, profiled step is not kept: it says how long a step is and how many events it has,
    and loads what the profiler needs. On CPUs each step is waited for.
    """
    first = yield from _profiled(ranks, profiler, 1, on_gpu=on_gpu)
    if isinstance(first, str):
        return ProfileRecord(problem=first)
    count = max(1, len(first))
    fits = 1.0 if count <= MOST_EVENTS else 0.0
    if ranks.mean(fits) < 1 - 1e-6:
        return ProfileRecord(
            problem=f"a step has {count} events on this rank, and the profile of a step with "
            f"more than {MOST_EVENTS} on any rank is not kept"
        )
    wanted = ranks.steps.profiled if ranks.steps else None
    steps = int(ranks.mean(float(_steps(first, wanted, on_gpu=on_gpu))) + 1e-3)
    del first
    events = yield from _profiled(ranks, profiler, steps, on_gpu=on_gpu)
    if isinstance(events, str):
        return ProfileRecord(problem=events)
    windows = without_extremes(_windows(events, steps, on_gpu=on_gpu))
    record = ProfileRecord(
        windows=windows_of(events, windows),
        operators=operators_of(events, windows),
        launches=launches_of(events, windows),
    )
    enough = steps >= FEWEST_STEPS
    notes = [] if enough else [f"{steps} of {FEWEST_STEPS} steps, as each has {count} events"]
    if ranks.rank == 0:
        try:
            record["trace"] = _write_trace(profiler, len(events), folder)
        except (OSError, RuntimeError, ValueError) as error:
            notes.append(f"no trace was written: {error}")
    del events
    is_small = MEMORY_STEPS * count <= MOST_EVENTS
    if ranks.mean(float(is_small)) < 1 - 1e-6:
        # All ranks do the steps, or none
        notes.append("no allocations were recorded, as a step has too many events on a rank")
    else:
        notes += yield from _add_memory(record, ranks, profiler)
    step_s = record["windows"][0]["seconds"] / record["windows"][0]["steps"]
    notes += yield from add_stacks(record, ranks, step_s, folder)
    if notes:
        record["note"] = "; ".join(notes)
    return record


def _steps(first: Sequence[TraceEvent], wanted: int | None = None, *, on_gpu: bool) -> int:
    """Return how many steps like that of ``first`` are profiled on this rank.

    Those ``wanted``; None: as many as its length says.
    """
    count = max(1, len(first))
    fits = MOST_EVENTS // count
    if min(fits, TRACE_EVENTS // count) <= FEWEST_STEPS:
        return min(FEWEST_STEPS, fits)
    begin_us, end_us = next((one for one, _ in _windows(first, 1, on_gpu=on_gpu)), (0.0, 0.0))
    wanted = wanted or steps_in_profile((end_us - begin_us) / 1e6)
    return max(FEWEST_STEPS, min(MOST_STEPS, wanted, fits, TRACE_EVENTS // count))


def _profiled(
    ranks: Ranks, profiler: Profiler, steps: int, *, on_gpu: bool
) -> Generator[None, None, list[TraceEvent] | str]:
    """Return the events of ``steps``; on all ranks why the profiler failed, if it did on one."""
    problem = ""
    try:
        profiler.start()
    except Exception as error:  # noqa: BLE001  # the profiler's own, whatever it is
        problem = _words(profiler, error)
    if failure := _on_any_rank(ranks, problem):
        if not problem:
            with contextlib.suppress(Exception):
                profiler.stop()
        return failure
    ranks.synchronise()
    try:
        with profiler.annotate(STEP) if on_gpu else contextlib.nullcontext():
            for _ in range(steps):
                with contextlib.nullcontext() if on_gpu else profiler.annotate(STEP):
                    yield
                    if not on_gpu:
                        ranks.synchronise()
            ranks.synchronise()
    except BaseException:
        # The program ends; a profiler that records then may crash the interpreter (PyTorch's)
        with contextlib.suppress(Exception):
            profiler.stop()
        raise
    events: list[TraceEvent] = []
    try:
        events = profiler.stop()
    except Exception as error:  # noqa: BLE001  # as above
        problem = _words(profiler, error)
    return _on_any_rank(ranks, problem) or events


def _on_any_rank(ranks: Ranks, problem: str) -> str:
    """Return ``problem``, or that another rank has one; empty if none has."""
    share = ranks.mean(1.0 if problem else 0.0)
    return problem or ("the profiler failed on another rank" if share > 1e-6 else "")


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


def outermost(kind: Any, *, without: tuple[Any, ...]) -> list[Any]:
    """Return the modules of a program: of those of ``kind`` in memory, the ones in no other.

    ``without`` are the classes that wrap a model.
    """
    # By its type, as a lazy module may import itself when it is asked for its class
    modules = [
        each
        for each in gc.get_objects()
        if issubclass(type(each), kind) and not issubclass(type(each), without)
    ]
    inner = {id(child) for module in modules for child in module.children()}
    return [module for module in modules if id(module) not in inner]


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


def _add_memory(
    record: ProfileRecord, ranks: Ranks, profiler: Profiler
) -> Generator[ProfileRecord, None, list[str]]:
    """Add what is allocated at the peak, of further steps; return notes."""
    problem, at_peak = "", None
    try:
        at_peak = profiler.live_memory()
    except Exception as error:  # noqa: BLE001  # the profiler's own, whatever it is
        problem = _words(profiler, error)
    if at_peak is None and not problem:
        return []
    try:
        for _ in range(MEMORY_STEPS):  # also where it failed here: the other ranks do them
            yield record
        ranks.synchronise()
    except BaseException:
        if at_peak is not None:
            with contextlib.suppress(Exception):
                at_peak()
        raise
    if at_peak is not None:
        try:
            record["memory"] = at_peak()
        except Exception as error:  # noqa: BLE001  # as above
            problem = _words(profiler, error)
    return [f"no allocations were recorded: {problem}"] if problem else []


def add_stacks(
    record: ProfileRecord, ranks: Ranks, step_s: float, folder: Path
) -> Generator[ProfileRecord, None, list[str]]:
    """Add where Python spends its time, of further steps, if py-spy is there; return notes.

    Whether it is there may differ by rank, so the ranks agree on the steps.
    """
    sampler = host_stacks.sampler(folder, ranks.rank)
    wanted = ranks.steps.sampled if ranks.steps else steps_in_stacks(step_s)
    steps = int(ranks.mean(float(wanted) if sampler else 0.0) + 0.5)
    if steps == 0:
        return []
    if sampler is not None:
        sampler.start()
    ranks.mean(1.0)  # the ranks begin together
    try:
        for _ in range(steps):
            yield record
        ranks.synchronise()
    except BaseException:
        if sampler is not None:
            sampler.end()
        raise
    if sampler is None:
        return []
    try:
        stacks: list[HostStack] = sampler.stop(steps)
    except (OSError, ValueError) as error:
        return [f"no host stacks: {error}"]
    record["stacks"] = stacks
    return []
