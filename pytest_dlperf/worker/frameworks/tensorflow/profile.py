"""Profile a few steps of a TensorFlow training with its profiler, after the measured window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker.frameworks import profiling, xplane_profiler
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.frameworks.profiling import Profiling, Ranks
from pytest_dlperf.worker.frameworks.xplane_profiler import XplaneProfiler
from pytest_dlperf.worker.step_parts import TraceEvent
from pytest_dlperf.worker.tensorflow_operators import tensorflow_events
from pytest_dlperf.worker.xplane import XSpace


def profile(
    framework: Framework, step: Callable[[], Any], folder: Path, *, on_gpu: bool
) -> ProfileRecord:
    """Return the parts and the operators of a few steps."""
    return xplane_profiler.profile(framework, step, _profiler(folder), on_gpu=on_gpu)


def profile_program(folder: Path, ranks: Ranks, *, on_gpu: bool) -> Profiling:
    """Profile the steps of a program, as those of a workload."""
    return profiling.profiled_steps(ranks, _profiler(folder), folder, on_gpu=on_gpu)


def _profiler(folder: Path) -> XplaneProfiler:
    return XplaneProfiler(
        name="tf.profiler",
        folder=folder,
        begin=_begin,
        end=tf.profiler.experimental.stop,
        annotate=tf.profiler.experimental.Trace,
        events_of=events_of,
    )


def _begin(folder: str) -> None:
    # Else each call of a Python function is an event, and makes the step slower
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    tf.profiler.experimental.start(folder, options)


def events_of(space: XSpace) -> list[TraceEvent]:
    """Return the steps, the waits for data, what was traced, and the operators."""
    return tensorflow_events(space) + xplane_profiler.annotated(space)
