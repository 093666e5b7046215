"""Profile a few steps of a PyTorch training with torch.profiler, after the measured window."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.profiler import ProfilerActivity, record_function

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker import compiling
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.step_parts import (
    MODULE,
    Interval,
    TraceEvent,
    operators_of,
    windows_of,
    without_extremes,
)

_STEPS: Final = 5
_STEP: Final = "dlperf.step"
#: Events that are kept in memory, a kilobyte or so each; of a trace file, some 300 bytes each.
MOST_EVENTS: Final = 400_000
_TRACE_EVENTS: Final = 200_000
_TRACE_BYTES_PER_EVENT: Final = 500


def profile(
    framework: Framework, step: Callable[[], Any], modules: Iterable[torch.nn.Module], folder: Path
) -> ProfileRecord:
    """Return the parts and the operators of up to five steps, fewer where they are many events.

    The first, profiled step is not kept: it says how many events a step has, and loads what the
    profiler needs. All ranks do the same number of steps, or none: one that waited for another
    would hang. An error of the workload's own propagates.
    """
    on_gpu = framework.job.device.type == "cuda"
    with _named_modules(modules):
        first = _profiled(framework, step, 1, on_gpu=on_gpu)
        if isinstance(first, str):
            return ProfileRecord(problem=first)
        count = max(1, len(first.events()))
        fits = 1.0 if count <= MOST_EVENTS else 0.0
        if _mean(framework, fits) < 1 - 1e-6:
            return ProfileRecord(
                problem=f"a step has {count} events on this rank, and the profile of a step with "
                f"more than {MOST_EVENTS} on any rank is not kept"
            )
        steps = int(_mean(framework, float(min(_STEPS, MOST_EVENTS // count))) + 1e-3)
        del first
        found = _profiled(framework, step, steps, on_gpu=on_gpu)
    if isinstance(found, str):
        return ProfileRecord(problem=found)
    events = [_event(event) for event in found.events()]
    windows = without_extremes(_windows(events, steps, on_gpu=on_gpu))
    record = ProfileRecord(
        windows=windows_of(events, windows), operators=operators_of(events, windows)
    )
    notes = [] if steps == _STEPS else [f"{steps} of {_STEPS} steps, as each has {count} events"]
    if framework.job.rank == 0:
        try:
            record["trace"] = _write_trace(found, len(events), folder)
        except (OSError, RuntimeError, ValueError) as error:
            notes.append(f"no trace was written: {error}")
    if notes:
        record["note"] = "; ".join(notes)
    return record


def _profiled(
    framework: Framework, step: Callable[[], Any], steps: int, *, on_gpu: bool
) -> Any | str:
    """Return the profiler after ``steps``; on all ranks why it failed, if it did on one."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    problem = ""
    profiler: Any = None
    try:
        profiler = torch.profiler.profile(activities=activities)
        profiler.start()
    except Exception as error:  # noqa: BLE001  # the profiler's own, whatever it is
        problem = _words(error)
    if other := _on_any_rank(framework, problem):
        if not problem:
            with contextlib.suppress(Exception):
                profiler.stop()
        return other
    framework.synchronise()
    with record_function(_STEP) if on_gpu else contextlib.nullcontext():
        for _ in range(steps):
            with contextlib.nullcontext() if on_gpu else record_function(_STEP):
                framework.keep_loss(step())
        framework.synchronise()
    framework.job.feed.take_wait()
    try:
        profiler.stop()
        profiler.events()
    except Exception as error:  # noqa: BLE001  # as above
        problem = _words(error)
    return _on_any_rank(framework, problem) or profiler


def _on_any_rank(framework: Framework, problem: str) -> str:
    """Return ``problem``, or that another rank has one; empty if none has."""
    share = _mean(framework, 1.0 if problem else 0.0)
    return problem or ("the profiler failed on another rank" if share > 1e-6 else "")


def _mean(framework: Framework, value: float) -> float:
    return framework.mean_over_ranks(value) if framework.job.world_size > 1 else value


def _words(error: Exception) -> str:
    return f"torch.profiler failed: {type(error).__name__}: {error}".partition("\n")[0]


def _event(event: Any) -> TraceEvent:
    on_device = event.device_type != torch.autograd.DeviceType.CPU
    name = event.name
    if on_device and getattr(event, "is_user_annotation", False):
        on_device, name = False, "annotation"  # its copy on the device's time line
    return TraceEvent(
        name=name,
        begin_us=float(event.time_range.start),
        end_us=float(event.time_range.end),
        thread=event.thread,
        on_device=on_device,
        is_async=bool(event.is_async),
        sequence=event.sequence_nr,
        device_us=float(getattr(event, "self_device_time_total", 0.0)),
    )


def _windows(
    events: Sequence[TraceEvent], steps: int, *, on_gpu: bool
) -> list[tuple[Interval, int]]:
    """Return the windows: one a step, or one for all, which run ahead of each other on a GPU."""
    return [
        ((event.begin_us, event.end_us), steps if on_gpu else 1)
        for event in events
        if event.name == _STEP and not event.on_device
    ]


def _write_trace(profiler: Any, events: int, folder: Path) -> str:
    """Write a trace and return its file's name; raise ``OSError`` or ``ValueError``."""
    if events > _TRACE_EVENTS:
        raise ValueError(f"it would have {events} events, more than {_TRACE_EVENTS}")
    if shutil.disk_usage(folder).free < 2 * events * _TRACE_BYTES_PER_EVENT:
        raise ValueError(f"the disk of {folder} is nearly full")
    file = folder / "trace.json.gz"
    try:
        profiler.export_chrome_trace(str(file))
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    return file.name


@contextlib.contextmanager
def _named_modules(modules: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Annotate the forward of each part of ``modules`` with its path, while open.

    Not where functions are compiled: they would be compiled again, with the annotations.
    """
    if compiling.sample().frames:
        yield
        return
    names: dict[int, str] = {}
    for module in modules:
        for name, part in module.named_modules():
            if name:
                names.setdefault(id(part), name)
    active: list[Any] = []

    def enter(module: torch.nn.Module, _inputs: Any) -> None:
        if name := names.get(id(module)):
            active.append(record_function(f"{MODULE}{name}"))
            active[-1].__enter__()

    def leave(module: torch.nn.Module, _inputs: Any, _outputs: Any) -> None:
        if id(module) in names and active:
            active.pop().__exit__(None, None, None)

    handles = [
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
