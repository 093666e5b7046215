"""Profile a few steps of a JAX training with jax.profiler, after the measured window."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import jax

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker import xla_compiles
from pytest_dlperf.worker.frameworks import profiling, xplane_profiler
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.frameworks.profiling import Profiling, Ranks
from pytest_dlperf.worker.frameworks.xplane_profiler import XplaneProfiler
from pytest_dlperf.worker.step_parts import COMPILATION, COMPILING, TraceEvent
from pytest_dlperf.worker.xla_operators import xla_events
from pytest_dlperf.worker.xplane import XSpace


def profile(framework: Framework, step: Callable[[], Any], folder: Path) -> ProfileRecord:
    """Return the parts and the operators of a few steps.

    Each is waited for, as those of the window are.
    """
    return xplane_profiler.profile(framework, step, _profiler(folder), on_gpu=False)


def profile_program(folder: Path, ranks: Ranks, *, on_gpu: bool) -> Profiling:
    """Profile the steps of a program, as those of a workload."""
    return profiling.profiled_steps(ranks, _profiler(folder), folder, on_gpu=False)


def _profiler(folder: Path) -> XplaneProfiler:
    return XplaneProfiler(
        name="jax.profiler",
        folder=folder,
        begin=_begin,
        end=_end,
        annotate=jax.profiler.TraceAnnotation,
        events_of=events_of,
    )


def _begin(folder: str) -> None:
    options = jax.profiler.ProfileOptions()
    # Else each call of a Python function is an event, and makes the step slower
    options.python_tracer_level = 0
    jax.profiler.start_trace(folder, profiler_options=options)


def _end() -> None:
    # A result is ready before the thread that made it ends its event, which would not be recorded
    time.sleep(_ENDS_S)
    jax.profiler.stop_trace()


def events_of(space: XSpace) -> list[TraceEvent]:
    """Return the steps, the waits for data, what was compiled, and the operators."""
    events = xla_events(space) + xplane_profiler.annotated(space)
    began_s = space.begin_s()
    if began_s is not None:
        events += [
            TraceEvent(
                COMPILING,
                (begin_s - began_s) * 1e6,
                (end_s - began_s) * 1e6,
                is_async=True,
                part=COMPILATION,
            )
            for begin_s, end_s in xla_compiles.spans()
            if begin_s >= began_s
        ]
    return events


#: Seconds in which threads that are done end their events.
_ENDS_S: Final = 0.05
