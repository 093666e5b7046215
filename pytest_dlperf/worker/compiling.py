"""Count what torch.compile or XLA compiled: frames, graphs, graph breaks, recompiles, seconds.

No framework is imported: the counters are those of modules that the workload loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_dlperf.core.wire_model import CompileRecord, GraphCounts
from pytest_dlperf.worker import xla_compiles


class CompileSample(NamedTuple):
    """Counters at one moment; 0 where nothing was compiled."""

    #: Frames that Dynamo was given, whether it compiled them or not; programs that XLA compiled.
    frames: int
    #: Wall-clock seconds of these compilations.
    seconds: float
    #: Compilations that were begun; those of ``fullgraph=True`` are not among the frames.
    compilations: int = 0

    @property
    def any(self) -> bool:
        """Whether anything was compiled."""
        return bool(self.frames or self.compilations)


def sample() -> CompileSample:
    """Return the counters now: those of Dynamo where it compiled anything, else XLA's."""
    xla = xla_compiles.sample()
    dynamo = _dynamo_sample()
    return dynamo if dynamo.any else CompileSample(frames=xla.programs, seconds=xla.seconds)


def first_step_ended() -> None:
    """Say that what an iteration needs was compiled once; Dynamo counts that itself."""
    xla_compiles.first_step_ended()


def _dynamo_sample() -> CompileSample:
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None) or {}
    metrics = getattr(dynamo, "compilation_time_metrics", None) or {}
    # Other entries are parts of this one; its name has changed with versions.
    seconds = [sum(times) for name, times in metrics.items() if name.endswith("compile_inner")]
    return CompileSample(
        frames=int(counters.get("frames", {}).get("total", 0)),
        seconds=float(sum(seconds)),
        compilations=sum(_compilations().values()),
    )


def _compilations() -> Mapping[Any, int]:
    """Return how often each function was compiled; empty if Dynamo does not say."""
    convert: Any = sys.modules.get("torch._dynamo.convert_frame")
    return getattr(convert, "FRAME_COMPILE_COUNTER", None) or {}


def graphs() -> GraphCounts:
    """Return what the compiler says of its graphs so far; empty where nothing was compiled."""
    if not _dynamo_sample().any:
        recompiles = xla_compiles.recompiles()
        if not xla_compiles.sample().programs or recompiles is None:
            return {}
        return GraphCounts(compiler="XLA", recompiles=recompiles)
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None) or {}
    stats, frames = counters.get("stats", {}), counters.get("frames", {})
    # A break within a loop breaks no graph: Dynamo leaves the whole function to Python, and counts
    # a frame that it did not convert.
    left_to_python = max(0, int(frames.get("total", 0)) - int(frames.get("ok", 0)))
    counts = GraphCounts(
        graphs=int(stats.get("unique_graphs", 0)),
        graph_breaks=sum(counters.get("graph_break", {}).values()) + left_to_python,
        operators=int(stats.get("calls_captured", 0)),
        cudagraph_skips=int(counters.get("inductor", {}).get("cudagraph_skips", 0)),
    )
    if compilations := _compilations():
        counts["recompiles"] = sum(count - 1 for count in compilations.values())
    metrics: list[Any] = getattr(dynamo, "get_compilation_metrics", list)()
    # None for a compilation that made no graph, and for that of a backward pass.
    sizes = [getattr(compilation, "graph_op_count", None) for compilation in metrics]
    counts["operators_by_graph"] = [size for size in sizes if size]
    return counts


def compile_record(
    before: CompileSample, after: CompileSample, made: GraphCounts | None = None
) -> CompileRecord:
    """Return the record ``compile`` of a window between two samples, with the graphs ``made``.

    Counters that a program has set back in between count from 0.
    """
    return CompileRecord(
        **(made or {}),
        frames=max(after.frames, after.compilations),
        seconds=after.seconds,
        frames_in_window=int(
            max(
                _since(before.frames, after.frames),
                _since(before.compilations, after.compilations),
            )
        ),
        seconds_in_window=_since(before.seconds, after.seconds),
    )


def _since(before: float, after: float) -> float:
    return after - before if after >= before else after
