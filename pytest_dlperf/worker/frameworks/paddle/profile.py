"""Profile a few steps of a Paddle training with paddle.profiler, after the measured window."""

from __future__ import annotations

import contextlib
import gc
import gzip
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import paddle
from paddle.profiler import Profiler, ProfilerTarget, RecordEvent

from pytest_dlperf.core.wire_profile import LiveMemory, ProfileRecord
from pytest_dlperf.worker.frameworks import profiling
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.frameworks.profiling import Profiling, Ranks, outermost
from pytest_dlperf.worker.step_parts import (
    BACKWARD,
    COMMUNICATION,
    COMPUTE,
    DATA,
    DATA_EVENT,
    MODULE,
    NO_PART,
    OPTIMIZER,
    TraceEvent,
)

#: Collectives that a step calls itself: no event of the profiler shows those of gloo.
_COLLECTIVES: Final = (
    "all_gather", "all_reduce", "alltoall", "barrier", "broadcast", "reduce", "reduce_scatter",
)  # fmt: skip
_COLLECTIVE: Final = "paddle.distributed."


def profile(
    framework: Framework, step: Callable[[], Any], layers: Iterable[paddle.nn.Layer], folder: Path
) -> ProfileRecord:
    """Return the parts and the operators of a few steps, with the paths of ``layers``."""
    on_gpu = framework.job.device != "cpu"
    profiler = PaddleProfiler(on_gpu=on_gpu, reduces=framework.job.world_size > 1)
    with _named_layers(layers), _named_collectives():
        return profiling.profile(framework, step, profiler, folder, on_gpu=on_gpu)


def profile_program(folder: Path, ranks: Ranks, *, on_gpu: bool) -> Profiling:
    """Profile the steps of a program, with the paths of the layers that it has."""
    profiler = PaddleProfiler(on_gpu=on_gpu, reduces=paddle.distributed.get_world_size() > 1)
    layers = outermost(paddle.nn.Layer, without=(paddle.DataParallel,))
    with _named_layers(layers), _named_collectives():
        return (yield from profiling.profiled_steps(ranks, profiler, folder, on_gpu=on_gpu))


class PaddleProfiler:
    """``paddle.profiler``."""

    name = "paddle.profiler"

    def __init__(self, *, on_gpu: bool, reduces: bool) -> None:
        self._on_gpu = on_gpu
        #: Whether gradients are averaged where they are accumulated.
        self._reduces = reduces
        self._profiler: Any = None

    def start(self) -> None:
        """Begin to record."""
        # A process has one of them at a time, until it is freed
        self._profiler = None
        gc.collect()
        targets = [ProfilerTarget.CPU, *([ProfilerTarget.GPU] if self._on_gpu else [])]
        self._profiler = Profiler(targets=targets, on_trace_ready=lambda _: None)
        self._profiler.start()

    def annotate(self, name: str) -> AbstractContextManager[Any]:
        """Return an annotation."""
        event: AbstractContextManager[Any] = RecordEvent(name)
        return event

    def stop(self) -> list[TraceEvent]:
        """End the recording, and return its events."""
        self._profiler.stop()
        events: list[TraceEvent] = []
        for thread, root in self._profiler.profiler_result.get_data().items():
            for node in root.children_node:
                events += self._events(node, int(thread), "")
        return events

    def _events(self, node: Any, thread: int, outer: str) -> Iterator[TraceEvent]:
        """Return the events of ``node`` and below; ``outer`` is the part around it."""
        kind = str(node.type).rpartition(".")[2]
        name, part = self._meaning(node.name, kind, outer)
        kernels = [each for runtime in node.runtime_node for each in _on_device(runtime)]
        yield TraceEvent(
            name=name,
            begin_us=node.start_ns / 1000,
            end_us=node.end_ns / 1000,
            thread=thread,
            part=part or NO_PART,
            device_us=sum(_us(kernel) for kernel in _below(node)) if part == COMPUTE else 0.0,
            kernels=tuple(kernel.name for kernel in _below(node)) if part == COMPUTE else (),
        )
        for runtime in node.runtime_node:
            yield TraceEvent(
                name=runtime.name,
                begin_us=runtime.start_ns / 1000,
                end_us=runtime.end_ns / 1000,
                thread=thread,
            )
        for kernel in kernels:
            yield TraceEvent(
                name=kernel.name,
                begin_us=kernel.start_ns / 1000,
                end_us=kernel.end_ns / 1000,
                on_device=True,
            )
        for child in node.children_node:
            yield from self._events(child, thread, part or outer)

    def _meaning(self, name: str, kind: str, outer: str) -> tuple[str, str]:
        """Return the name that an event is shown by, and its part; empty for none."""
        if kind == "Dataloader":
            return DATA_EVENT, DATA
        if kind == "Backward":
            return BACKWARD, ""
        if kind == "Optimization":
            return f"{OPTIMIZER}step", ""
        if kind == "Communication" or name.startswith(_COLLECTIVE):
            return name, COMMUNICATION
        if self._reduces and "GradNodeAccumulation" in name and not self._on_gpu:
            return "GradNodeAccumulation", COMMUNICATION
        if kind == "Operator":
            return name.removeprefix("Global_").removesuffix(" dygraph"), COMPUTE
        if kind.endswith("KernelLaunch") and outer != COMPUTE:
            return name.removesuffix(" kernel launch"), COMPUTE
        return name, ""

    def write_trace(self, file: Path) -> None:
        """Write the last recording."""
        plain = file.with_suffix("")
        try:
            self._profiler.export(str(plain), format="json")
            with plain.open("rb") as source, gzip.open(file, "wb") as packed:
                shutil.copyfileobj(source, packed)
        finally:
            plain.unlink(missing_ok=True)

    def live_memory(self) -> Callable[[], LiveMemory] | None:
        """Return None: Paddle's allocators do not say where something was allocated."""
        return None


def _us(node: Any) -> float:
    return float(node.end_ns - node.start_ns) / 1000


def _on_device(runtime: Any) -> Iterable[Any]:
    kernels: Iterable[Any] = runtime.device_node
    return kernels


def _below(node: Any) -> list[Any]:
    """Return the kernels that ``node`` and its inner nodes start, other operators left out."""
    kernels = [kernel for runtime in node.runtime_node for kernel in _on_device(runtime)]
    for child in node.children_node:
        if not str(child.type).endswith(".Operator"):
            kernels += _below(child)
    return kernels


@contextlib.contextmanager
def _named_layers(layers: Iterable[paddle.nn.Layer]) -> Iterator[None]:
    """Annotate the forward of each sublayer of ``layers`` with its path, while open."""
    names: dict[int, tuple[Any, str]] = {}
    for layer in layers:
        for name, part in layer.named_sublayers():
            names.setdefault(id(part), (part, name))
    active: list[Any] = []

    def entering(name: str) -> Callable[[Any, Any], None]:
        def enter(_layer: Any, _inputs: Any) -> None:
            active.append(RecordEvent(f"{MODULE}{name}"))
            active[-1].begin()

        return enter

    def leave(_layer: Any, _inputs: Any, _outputs: Any) -> None:
        if active:
            active.pop().end()

    handles = []
    for part, name in names.values():
        handles.append(part.register_forward_pre_hook(entering(name)))
        handles.append(part.register_forward_post_hook(leave))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _named_collectives() -> Iterator[None]:
    """Annotate the collectives that are called by the names of ``paddle.distributed``."""
    originals: dict[str, Any] = {}

    def annotated(name: str, original: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            with RecordEvent(f"{_COLLECTIVE}{name}"):
                return original(*args, **kwargs)

        return call

    for name in _COLLECTIVES:
        original = getattr(paddle.distributed, name, None)
        if original is not None:
            originals[name] = original
            setattr(paddle.distributed, name, annotated(name, original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(paddle.distributed, name, original)
