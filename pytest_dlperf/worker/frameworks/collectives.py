"""Samples what collectives cost a step: from steps without averaging, or Horovod's timeline."""

from __future__ import annotations

import contextlib
import json
import math
import statistics
import time
from collections.abc import Callable, Collection, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.wire_records import CollectivesRecord
from pytest_dlperf.worker.frameworks.base import Framework, Timer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


# The share of collectives in a step, from steps in which gradients stay on their rank.
#
# What a step takes longer with the averaging of gradients than without it is what the averaging
# costs: the part of it that no computation hides, with the wait for slower ranks. A step without
# is the rank's own work, at its own pace. Parameters differ by rank afterwards, so nothing may
# train after this.

METHOD: Final = "steps without averaging"
#: Of short steps so many are sampled as this holds, and never fewer or more than that.
_SECONDS: Final = 0.15
_FEWEST: Final = 3
_MOST: Final = 20


def sample(
    framework: Framework,
    step: Callable[[], Any],
    wrappers: Collection[Any],
    calls: DirectCalls,
) -> CollectivesRecord:
    """Return medians of sampled steps.

    ``wrappers`` are those of data parallelism, whose ``no_sync`` keeps gradients on their rank.
    ``own_seconds`` and ``collective_seconds`` are None where the step's collectives cannot be
    separated from it.
    """
    typical_s = framework.mean_over_ranks(_block(framework, step, 1)[0])
    count = round(max(_FEWEST, min(_MOST, _SECONDS / typical_s)))
    step_s = statistics.median(_block(framework, step, count))
    with contextlib.ExitStack() as unaveraged:
        for wrapper in wrappers:
            unaveraged.enter_context(wrapper.no_sync())
        own_s = _own(_block(framework, step, count, calls), calls)
    is_known = not calls.untimed and (bool(wrappers) or calls.count > 0)
    return CollectivesRecord(
        method=METHOD,
        iterations=count,
        step_seconds=step_s,
        collective="collectives" if calls.count else "all-reduce",
        own_seconds=own_s if is_known else None,
        collective_seconds=max(0.0, step_s - own_s) if is_known else None,
    )


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


class DirectCalls:
    """While open, calls of functions of a framework's distributed module are timed.

    On the device's own clock, where the stream that trains waits for the collective. A call
    that returns before it is done cannot be timed so; that there was one is remembered.
    """

    def __init__(
        self,
        module: Any,
        names: Iterable[str],
        new_timer: Callable[[], Timer],
        returns_early: Callable[[dict[str, Any]], bool],
    ) -> None:
        self._module = module
        self._originals = {n: getattr(module, n) for n in names if hasattr(module, n)}
        self._timer = new_timer()
        self._returns_early = returns_early
        self._inside = False
        #: The calls so far, as counted at the end of each step.
        self._ends: list[int] = []
        self.count = 0
        #: Whether some call's seconds are unknown.
        self.untimed = False

    def __enter__(self) -> DirectCalls:
        for name, original in self._originals.items():
            setattr(self._module, name, self._timed(original))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for name, original in self._originals.items():
            setattr(self._module, name, original)

    def end_step(self) -> None:
        """Say that the calls so far belong to the steps so far."""
        self._ends.append(self.count)

    def seconds_by_step(self) -> list[float]:
        """Return the seconds of the calls of every step; waits for the device."""
        seconds = [wall_s for wall_s, _ in self._timer.read()]
        begins = [0, *self._ends[:-1]]
        return [
            math.fsum(seconds[begin:end]) for begin, end in zip(begins, self._ends, strict=True)
        ]

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._inside:  # one collective that is made of others
                return original(*args, **kwargs)
            if self._returns_early(kwargs):
                self.untimed = True
                return original(*args, **kwargs)
            self._inside = True
            self._timer.start()
            try:
                return original(*args, **kwargs)
            finally:
                self._timer.lap()
                self.count += 1
                self._inside = False

        return call


#: Horovod's writer is a thread of its own.
_WRITTEN_WITHIN_S: Final = 2.0


def read_timeline(path: Path) -> list[Mapping[str, Any]]:
    """Return the events of a timeline once it is whole; none if it never is."""
    end_s = time.monotonic() + _WRITTEN_WITHIN_S
    while time.monotonic() < end_s:
        try:
            events: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            time.sleep(0.01)  # not written yet
            continue
        return events
    return []


def seconds_in_all_reduce(events: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the seconds in which at least one all-reduce went on; None if there was none.

    Activities of a tensor (``pid``) are nested; waiting for other ranks is one of its own.
    """
    open_: dict[int, list[tuple[str, float]]] = {}
    spans: list[tuple[float, float]] = []
    for event in events:
        stack = open_.setdefault(int(event.get("pid", 0)), [])
        if event["ph"] == "B":
            stack.append((str(event["name"]), float(event["ts"])))
        elif event["ph"] == "E" and stack:
            name, begin_us = stack.pop()
            if name == "ALLREDUCE":
                spans.append((begin_us, float(event["ts"])))
    if not spans:
        return None
    total_us = until_us = 0.0
    for begin_us, end_us in sorted(spans):
        total_us += max(0.0, end_us - max(begin_us, until_us))
        until_us = max(until_us, end_us)
    return total_us / 1e6
