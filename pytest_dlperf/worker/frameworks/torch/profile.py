"""Profile a few steps of a PyTorch training with torch.profiler, after the measured window."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.profiler import ProfilerActivity, record_function

from pytest_dlperf.core.wire_profile import LiveMemory, ProfileRecord
from pytest_dlperf.worker import compiling
from pytest_dlperf.worker.frameworks import profiling
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.frameworks.profiling import Profiling, Ranks, outermost
from pytest_dlperf.worker.peak_memory import MemoryEvent, live_at_peak
from pytest_dlperf.worker.step_parts import MODULE, OPTIMIZER, TraceEvent


def profile(
    framework: Framework, step: Callable[[], Any], modules: Iterable[torch.nn.Module], folder: Path
) -> ProfileRecord:
    """Return the parts and the operators of a few steps, with the paths of ``modules``."""
    on_gpu = framework.job.device.type == "cuda"
    with _named_modules(modules):
        return profiling.profile(framework, step, TorchProfiler(on_gpu), folder, on_gpu=on_gpu)


def profile_program(folder: Path, ranks: Ranks, *, on_gpu: bool) -> Profiling:
    """Profile the steps of a program, with the paths of the modules that it has."""
    with _named_modules(outermost(torch.nn.Module, without=_WRAPPERS)):
        return (
            yield from profiling.profiled_steps(
                ranks, TorchProfiler(on_gpu), folder, on_gpu=on_gpu
            )
        )


#: Modules whose one child is the model.
_WRAPPERS: Final = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)


class TorchProfiler:
    """``torch.profiler``."""

    name = "torch.profiler"

    def __init__(self, on_gpu: bool) -> None:  # its one property
        self._on_gpu = on_gpu
        self._profile: Any = None

    def start(self) -> None:
        """Begin to record."""
        activities = [ProfilerActivity.CPU]
        if self._on_gpu:
            activities.append(ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(activities=activities)
        self._profile.start()

    def annotate(self, name: str) -> AbstractContextManager[Any]:
        """Return an annotation."""
        return record_function(name)  # type: ignore[no-any-return]  # torch is Any here

    def stop(self) -> list[TraceEvent]:
        """End the recording, and return its events."""
        self._profile.stop()
        return events_of(self._profile.events())

    def write_trace(self, file: Path) -> None:
        """Write the last recording."""
        self._profile.export_chrome_trace(str(file))

    def live_memory(self) -> Callable[[], LiveMemory]:
        """Begin to record allocations, with their stacks; return what ends that."""
        self._profile = None  # what it recorded takes memory
        return _record_on_gpu() if self._on_gpu else _record_on_cpu()


#: Begins the names of annotations: the worker's own, and those of optimizers.
_ANNOTATIONS: Final = ("dlperf.", OPTIMIZER)


def events_of(recorded: Iterable[Any]) -> list[TraceEvent]:
    """Return the events that ``torch.profiler`` recorded, without a GPU's copies of annotations.

    Such a copy lasts as long as the kernels of the annotated part, and has the number of a thread
    of the host: what the host does meanwhile would be within it.
    """
    return [_event(one) for one in recorded if not (_is_on_device(one) and _is_annotation(one))]


def _is_on_device(event: Any) -> bool:
    return bool(event.device_type != torch.autograd.DeviceType.CPU)


def _is_annotation(event: Any) -> bool:
    # Older versions of PyTorch do not say it
    return getattr(event, "is_user_annotation", False) or event.name.startswith(_ANNOTATIONS)


def _event(event: Any) -> TraceEvent:
    return TraceEvent(
        name=event.name,
        begin_us=float(event.time_range.start),
        end_us=float(event.time_range.end),
        thread=event.thread,
        on_device=_is_on_device(event),
        is_async=bool(event.is_async),
        sequence=event.sequence_nr,
        device_us=float(getattr(event, "self_device_time_total", 0.0)),
        kernels=tuple(kernel.name for kernel in event.kernels or ()),
    )


#: Entries that the allocator's history keeps; each has a stack.
_MOST_ENTRIES: Final = 200_000


def _record_on_gpu() -> Callable[[], LiveMemory]:
    """Record by the own history of the allocator of the current GPU."""
    memory = torch.cuda.memory
    before = torch.cuda.memory_allocated()
    memory._record_memory_history(max_entries=_MOST_ENTRIES, stacks="python")

    def at_peak() -> LiveMemory:
        try:
            traces = memory._snapshot()["device_traces"]
        finally:
            memory._record_memory_history(enabled=None)
        return live_at_peak(events_of_history(traces[torch.cuda.current_device()]), before)

    return at_peak


def events_of_history(entries: Iterable[Mapping[str, Any]]) -> list[MemoryEvent]:
    """Return the allocations of a device in a snapshot of ``torch.cuda.memory``."""
    events = []
    for entry in entries:
        if entry["action"] == "alloc":
            place = _place(
                f"{frame['filename']}({frame['line']}): {frame['name']}"
                for frame in entry.get("frames", ())
            )
            events.append(MemoryEvent(entry["addr"], entry["size"], place))
        elif entry["action"] == "free_completed":
            events.append(MemoryEvent(entry["addr"], -entry["size"]))
    return events


def _record_on_cpu() -> Callable[[], LiveMemory]:
    """Record the tensors on the CPU by another profile."""
    recorded = torch.profiler.profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, with_stack=True
    )
    recorded.start()

    def at_peak() -> LiveMemory:
        recorded.stop()
        return _live_in(recorded.profiler)

    return at_peak


def _live_in(results: Any) -> LiveMemory:
    timed: list[tuple[int, MemoryEvent]] = []
    allocation = torch._C._profiler._EventType.Allocation
    open_: list[tuple[Any, tuple[str, ...]]] = [
        (root, ()) for root in results.kineto_results.experimental_event_tree()
    ]
    while open_:
        event, outer = open_.pop()
        if event.tag == allocation:
            fields = event.extra_fields
            place = _place(reversed(outer)) if fields.alloc_size > 0 else ""
            allocated = MemoryEvent(fields.ptr, fields.alloc_size, place)
            timed.append((event.start_time_ns, allocated))
        open_ += [(child, (*outer, event.name)) for child in event.children]
    timed.sort(key=lambda each: each[0])
    return live_at_peak(event for _, event in timed)


#: Files that are not the user's own program.
_LIBRARY: Final = (
    f"{Path(torch.__file__).parent}/", "torch/", "pytest_dlperf/", "<frozen", "<string>",
)  # fmt: skip


def _place(frames: Iterable[str]) -> str:
    """Return the innermost frame of a user's program, and the operator; ``frames`` as innermost.

    Without such a frame, as in the backward, the innermost module or node of autograd.
    """
    operator = module = ""
    for frame in frames:
        path, bracket, rest = frame.partition(".py(")
        if bracket:
            if not path.startswith(_LIBRARY) and "/pytest_dlperf/" not in path:
                place = f"{'/'.join(path.split('/')[-2:])}.py({rest}"
                return f"{place}: {operator}" if operator else place
        elif frame.startswith((MODULE, "autograd::engine", "Optimizer.")):
            module = module or frame.removeprefix(MODULE)
        elif "::" in frame and "<" not in frame:
            operator = frame  # the outermost one that the frame calls
    return f"{module}: {operator}" if module and operator else module or operator or "unknown"


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
