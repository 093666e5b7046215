"""How many steps are profiled, by what one of them is like."""

from __future__ import annotations

import pytest

from pytest_dlperf.worker.frameworks import profiling
from pytest_dlperf.worker.step_parts import TraceEvent


@pytest.mark.parametrize(
    ("step_s", "events", "steps"),
    [
        (0.001, 100, 20),
        (0.25, 100, 8),
        (3.0, 100, 5),
        # A trace of five is written, and of so many more as fit in one
        (0.001, 20_000, 10),
        # Of none is it written
        (0.001, 60_000, 5),
        (0.001, 100_000, 4),
        (0.001, 300_000, 1),
    ],
)
def test_more_of_short_steps_with_few_events(step_s: float, events: int, steps: int):
    first = [TraceEvent(profiling.STEP, 0, step_s * 1e6)]
    first += [TraceEvent("aten::mm", 0, 1)] * (events - 1)
    assert profiling._steps(first, on_gpu=False) == steps
