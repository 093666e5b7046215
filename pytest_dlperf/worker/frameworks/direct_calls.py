"""Times the collectives that a workload calls by itself, apart from its data-parallel wrapper."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from pytest_dlperf.worker.frameworks.base import Timer


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
