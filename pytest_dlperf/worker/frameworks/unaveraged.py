"""The share of collectives in a step, from steps in which gradients stay on their rank.

What a step takes longer with the averaging of gradients than without it is what the averaging
costs: the part of it that no computation hides, with the wait for slower ranks. A step without
is the rank's own work, at its own pace. Parameters differ by rank afterwards, so nothing may
train after this.
"""

from __future__ import annotations

import contextlib
import statistics
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pytest_dlperf.worker.frameworks.base import Framework
    from pytest_dlperf.worker.frameworks.direct_calls import DirectCalls

METHOD: Final = "steps without averaging"
#: Of short steps so many are sampled as this holds, and never fewer or more than that.
_SECONDS: Final = 0.15
_FEWEST: Final = 3
_MOST: Final = 20


def sample(
    framework: Framework,
    step: Callable[[], Any],
    unaveraged: AbstractContextManager[Any] | None,
    calls: DirectCalls,
) -> dict[str, Any]:
    """Return medians of sampled steps: ``step_seconds``, ``own_seconds``, ``collective_seconds``.

    ``collective`` says whether there are others than the averaging of gradients.
    ``unaveraged`` keeps the gradients of data-parallel wrappers on their rank while open; None
    if there is no wrapper. The last two are None where the step does nothing that can be told
    apart.
    """
    typical_s = framework.mean_over_ranks(_block(framework, step, 1)[0])
    count = round(max(_FEWEST, min(_MOST, _SECONDS / typical_s)))
    step_s = statistics.median(_block(framework, step, count))
    found: dict[str, Any] = {"method": METHOD, "iterations": count, "step_seconds": step_s}
    with unaveraged or contextlib.nullcontext():
        own_s = _own(_block(framework, step, count, calls), calls)
    found["collective"] = "collectives" if calls.count else "all-reduce"
    if calls.untimed or (unaveraged is None and not calls.count):
        return {**found, "own_seconds": None, "collective_seconds": None}
    return {**found, "own_seconds": own_s, "collective_seconds": max(0.0, step_s - own_s)}


def _block(
    framework: Framework, step: Callable[[], Any], count: int, calls: DirectCalls | None = None
) -> list[float]:
    """Return the seconds of ``count`` steps, of all ranks from one moment on.

    One more goes before them: it fills the device's queue, and what it did before the gradients
    stayed here is not the rank's own.
    """
    framework.synchronise()
    framework.barrier()
    timer = framework.timer()
    with calls or contextlib.nullcontext():
        timer.start()
        for _ in range(1 + count):
            step()
            timer.lap()
            if calls is not None:
                calls.end_step()
    framework.synchronise()
    return [seconds for seconds, _ in timer.read()][1:]


def _own(seconds: list[float], calls: DirectCalls) -> float:
    direct = calls.seconds_by_step()[1:]
    return statistics.median(
        step_s - direct_s for step_s, direct_s in zip(seconds, direct, strict=True)
    )
