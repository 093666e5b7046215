"""Profile a few steps of a TensorFlow training with its profiler, after the measured window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker.frameworks import xplane_profiler
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.frameworks.xplane_profiler import XplaneProfiler
from pytest_dlperf.worker.step_parts import TraceEvent
from pytest_dlperf.worker.tensorflow_operators import tensorflow_events
from pytest_dlperf.worker.xplane import XSpace


def profile(
    framework: Framework, step: Callable[[], Any], folder: Path, *, on_gpu: bool
) -> ProfileRecord:
    """Return the parts and the operators of a few steps."""
    profiler = XplaneProfiler(
        name="tf.profiler",
        folder=folder,
        begin=_begin,
        end=tf.profiler.experimental.stop,
        annotate=tf.profiler.experimental.Trace,
        events_of=events_of,
    )
    return xplane_profiler.profile(framework, step, profiler, on_gpu=on_gpu)


def _begin(folder: str) -> None:
    # Else each call of a Python function is an event, and makes the step slower
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    tf.profiler.experimental.start(folder, options)


def events_of(space: XSpace) -> list[TraceEvent]:
    """Return the steps, the waits for data, what was traced, and the operators."""
    return tensorflow_events(space) + xplane_profiler.annotated(space)
