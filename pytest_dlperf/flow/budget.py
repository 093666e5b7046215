"""The time budget of a session (``--dlperf-budget``)."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """How long a session may measure: no run starts that would not end within it."""

    seconds: float
    #: Of ``time.monotonic``.
    ends_at_s: float

    @classmethod
    def starting_now(cls, seconds: float) -> Budget:
        """Return a budget that ends ``seconds`` from now."""
        return cls(seconds=seconds, ends_at_s=time.monotonic() + seconds)

    def allows(self, run_s: float) -> bool:
        """Whether a run that takes ``run_s`` seconds would end in time."""
        return time.monotonic() + run_s < self.ends_at_s

    @property
    def left_s(self) -> float:
        """Return the seconds until its end; 0 after it."""
        return max(0.0, self.ends_at_s - time.monotonic())

    @property
    def text(self) -> str:
        """Return the whole budget for people: ``30 min``, ``45 s``."""
        minutes = self.seconds / 60
        return f"{minutes:g} min" if minutes >= 1 else f"{self.seconds:g} s"
