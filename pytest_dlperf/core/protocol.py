"""How a case is measured: iterations, warm-up, runs and the timeout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.quantity import is_number


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """How a case is measured; the default is the protocol of the source reports.

    150 iterations, of which the first 50 are the warm-up: seed 003 (PLSC ArcFace), "rules".
    """

    iterations: int = 150
    warmup: int = 50
    #: Seconds that the warm-up takes at least, from the second iteration on: a GPU may need more
    #: than ``warmup`` iterations to become as warm as it stays.
    warmup_s: float = 0.0
    runs: int = 5
    max_runs: int = 10
    timeout_s: float = 1800.0
    #: False where the user gave a number of runs: then exactly that many are measured.
    adaptive: bool = True
    #: The window that the case declares, if the command line replaced it.
    declared_window: tuple[int, int] | None = None
    #: The iterations of before, where pairs in lock-step needed a longer window.
    lengthened_from: int | None = None

    def __post_init__(self) -> None:
        for name in ("iterations", "warmup", "runs", "max_runs"):
            value = getattr(self, name)
            if type(value) is not int:
                raise UsageError(f"{name} {value!r}: give a whole number")
        if self.warmup < 2:
            raise UsageError(
                f"warm-up {self.warmup}: give 2 or more iterations; the first two check "
                "shapes and precision, and would disturb a measurement"
            )
        if self.warmup >= self.iterations:
            raise UsageError(
                f"warm-up {self.warmup} is not below the {self.iterations} iterations, so nothing "
                "would be measured; raise --dlperf-iterations or lower --dlperf-warmup"
            )
        if self.runs < 1:
            raise UsageError(f"runs {self.runs}: give 1 or more")
        if self.max_runs < self.runs:
            raise UsageError(f"max_runs {self.max_runs} is below runs {self.runs}; raise it")
        self._check_seconds()

    def _check_seconds(self) -> None:
        for name in ("timeout_s", "warmup_s"):
            value = getattr(self, name)
            if not is_number(value):
                raise UsageError(f"{name} {value!r}: give a number of seconds")
        if not 0 < self.timeout_s < math.inf:
            raise UsageError(
                f"timeout {self.timeout_s} s: give more than 0 seconds, and an end of them"
            )
        if not 0 <= self.warmup_s < self.timeout_s:
            raise UsageError(
                f"warmup_s {self.warmup_s:g}: give 0 or more seconds, fewer than the timeout of "
                f"{self.timeout_s:g} s"
            )

    def with_asked(self, asked: Mapping[str, Any]) -> Protocol:
        """Return it with what a command line asks for; raise ``UsageError``."""
        values = dict(asked)
        if "runs" in values:
            values["adaptive"] = "max_runs" in values
            values.setdefault("max_runs", values["runs"])
        elif "max_runs" in values:
            values["runs"] = min(self.runs, values["max_runs"])
        if {"iterations", "warmup"} & set(values):
            values["declared_window"] = self.window
        return replace(self, **values)

    @property
    def screening(self) -> Protocol:
        """Return it for a first stage, whose open cases get pairs in place of more runs."""
        return replace(self, max_runs=self.runs)

    @property
    def asked_iterations(self) -> int:
        """The iterations that the case or the user asked for, which pairs may have exceeded."""
        return self.lengthened_from or self.iterations

    @property
    def window(self) -> tuple[int, int]:
        """First measured iteration and the one after the last."""
        return self.warmup, self.iterations


#: Protocols that have a name. ``ngc-tf`` is seed 004's (NGC TensorFlow ResNet50V1.5):
#: ``--warmup_steps 200 --num_iter 500``, taken as 500 measured iterations.
PROTOCOLS: Final = {
    "default": Protocol(),
    "ngc-tf": Protocol(iterations=700, warmup=200),
}
