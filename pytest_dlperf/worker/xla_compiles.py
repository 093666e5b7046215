"""Counts what XLA compiled for JAX in this process, from the events of ``jax.monitoring``.

Nothing is imported here: a program that trains with JAX has it in ``sys.modules``. An event is
recorded when a function was traced, when it was lowered, and when XLA compiled it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

_COMPILED: Final = "/jax/core/compile/backend_compile_duration"
#: Parts of a compilation.
_PARTS: Final = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    _COMPILED,
)


class XlaSample(NamedTuple):
    """Counters at one moment."""

    #: Programs that XLA compiled, or read from JAX's compilation cache.
    programs: int = 0
    #: Wall-clock seconds of tracing, lowering and compiling.
    seconds: float = 0.0


class _Counter:
    def __init__(self) -> None:
        self.now = XlaSample()
        #: Begins and lengths of the spans that count, those that ended last at the end.
        self._spans: list[tuple[float, float]] = []
        self.at_first_step: int | None = None
        self.is_listening = False
        self.is_paused = False

    def __call__(self, event: str, begin_s: float, end_s: float, **_facts: Any) -> None:
        if event not in _PARTS or self.is_paused:
            return
        programs, spent_s = self.now
        # What is traced within another trace is part of that, and ended before it
        while self._spans and self._spans[-1][0] >= begin_s:
            spent_s -= self._spans.pop()[1]
        self._spans.append((begin_s, end_s - begin_s))
        self.now = XlaSample(programs + (event == _COMPILED), spent_s + end_s - begin_s)


_COUNTER: Final = _Counter()


def sample() -> XlaSample:
    """Return the counters now; the first call after JAX was imported begins to count."""
    monitoring: Any = sys.modules.get("jax.monitoring")
    if monitoring is not None and not _COUNTER.is_listening:
        monitoring.register_event_time_span_listener(_COUNTER)
        _COUNTER.is_listening = True
    return _COUNTER.now


def spans() -> list[tuple[float, float]]:
    """Return when something was traced or compiled: begins and ends, in seconds since 1970."""
    return [(begin_s, begin_s + length_s) for begin_s, length_s in _COUNTER._spans]


def first_step_ended() -> None:
    """Say that all that an iteration needs was compiled once: more of it is compiled again."""
    _COUNTER.at_first_step = sample().programs


def recompiles() -> int | None:
    """Return how many programs were compiled since the first step; None before it."""
    first = _COUNTER.at_first_step
    return None if first is None else _COUNTER.now.programs - first


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Count nothing while open: what is compiled then is not the training's."""
    before, _COUNTER.is_paused = _COUNTER.is_paused, True
    try:
        yield
    finally:
        _COUNTER.is_paused = before
