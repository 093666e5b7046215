"""Laps of marked steps, and of the phases between them, which belong to no step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pytest_dlperf.worker.frameworks.base import Timer

#: What a lap is: the end of a step, or a part of the step that ends later. Else it is a phase, and
#: has its name.
_END: Final = 0
_PART: Final = 1


class StepLaps:
    """Laps of a timer: each is a step, or a part of one, or a phase between two steps."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._kinds: list[int | str] = []
        self._laps_counted = self._steps = 0

    def start(self) -> None:
        """Begin a step here; earlier time belongs to none."""
        self._timer.start()

    def end_step(self) -> None:
        """End the step, and begin the next."""
        self._timer.lap()
        self._kinds.append(_END)

    def begin_phase(self) -> None:
        """End a part of the step that follows the phase."""
        self._timer.lap()
        self._kinds.append(_PART)

    def end_phase(self, name: str) -> None:
        """End a phase, and go on with the step."""
        self._timer.lap()
        self._kinds.append(name)

    def done(self) -> int:
        """Return how many steps the device has finished; waits for nothing."""
        return self._steps_in(self._timer.done())

    def finish(self, each: Callable[[int], None]) -> None:
        """Wait for every step in turn; ``each`` is given how many are finished."""
        self._timer.finish(lambda laps: each(self._steps_in(laps)))

    def read(self) -> tuple[list[tuple[float, float]], dict[str, float]]:
        """Return wall and CPU seconds of every step, and wall seconds of the phases by name.

        Waits for the device.
        """
        steps: list[tuple[float, float]] = []
        phases: dict[str, float] = {}
        wall_s = cpu_s = 0.0
        for (lap_s, lap_cpu_s), kind in zip(self._timer.read(), self._kinds, strict=True):
            if isinstance(kind, str):
                phases[kind] = phases.get(kind, 0.0) + lap_s
                continue
            wall_s, cpu_s = wall_s + lap_s, cpu_s + lap_cpu_s
            if kind == _END:
                steps.append((wall_s, cpu_s))
                wall_s = cpu_s = 0.0
        return steps, phases

    def _steps_in(self, laps: int) -> int:
        while self._laps_counted < laps:
            self._steps += self._kinds[self._laps_counted] == _END
            self._laps_counted += 1
        return self._steps
