"""Counts what torch.compile did in this process so far, without importing torch."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from pytest_dlperf.core.wire_records import CompileRecord


class CompileSample(NamedTuple):
    """Counters at one moment; 0 where nothing was compiled, or torch is not imported."""

    #: Frames that the compiler was given, whether it compiled them or not.
    frames: int
    #: Wall-clock seconds of these compilations.
    seconds: float


def sample() -> CompileSample:
    """Return the counters now; only a program that has used torch.compile has any."""
    dynamo: Any = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None) or {}
    metrics = getattr(dynamo, "compilation_time_metrics", None) or {}
    # Other entries are parts of this one; its name has changed with versions.
    seconds = [sum(times) for name, times in metrics.items() if name.endswith("compile_inner")]
    return CompileSample(int(counters.get("frames", {}).get("total", 0)), float(sum(seconds)))


def compile_record(before: CompileSample, after: CompileSample) -> CompileRecord:
    """Return the record ``compile`` of a window between two samples.

    Counters that a program has set back in between count from 0.
    """
    if after.frames < before.frames:
        before = CompileSample(0, 0.0)
    return CompileRecord(
        frames=after.frames,
        seconds=after.seconds,
        frames_in_window=after.frames - before.frames,
        seconds_in_window=max(0.0, after.seconds - before.seconds),
    )
