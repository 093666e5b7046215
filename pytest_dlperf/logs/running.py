"""Running means undone: what the iterations since the last print did by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: So much of a sum may come and go by rounding.
ROUNDING: Final = 1e-12
#: Rounding of means is to be so many times less than what is new in them.
FINER: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Own:
    """The last ``iterations`` alone, without those of earlier prints."""

    iterations: int
    rate: float | None
    seconds: float | None
    wait: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunningState:
    """The last mean of an epoch: its iterations, and their seconds in all."""

    count: int = 0
    seconds: float = 0.0
    wait: float = 0.0


class RunningMean:
    """The mean of one epoch's iterations from ``since`` on, as it grows."""

    def __init__(self, since: int, least_seconds: float = 0.0, resolution: float = 0.0) -> None:
        self._since = since
        self._least = least_seconds
        self._resolution = resolution * FINER
        #: How many prints added too little to the mean for its digits.
        self.too_coarse = 0
        self.state = RunningState()

    def restart(self) -> None:
        """Begin an epoch."""
        self.state = RunningState()

    def leave_out(self, step: int, seconds: float) -> None:
        """Take what is new in a mean of times for something else."""
        count = step - self._since + 1
        self.state = RunningState(count=count, seconds=seconds * count)

    def undo(
        self, step: int, *, rate: float | None, seconds: float | None, wait: float | None
    ) -> Own | None:
        """Return what is new in a mean; None where it is too little, and adds to the next.

        A rate stands for the inverse of a time: printed rates have more digits than seconds.
        """
        warm = step >= self._since
        count = step - self._since + 1 if warm else step + 1
        mean = 1 / rate if rate is not None else seconds or 0.0
        total, waited = mean * count, (wait or 0.0) * count
        new = count - self.state.count
        grown = total - self.state.seconds
        least = max(self._least, self._resolution * count)
        self.too_coarse += grown < self._resolution * count
        if new < 1 or grown <= total * ROUNDING or grown < least:
            return None
        own = grown / new
        own_wait = max(0.0, (waited - self.state.wait) / new)
        if warm:
            self.state = RunningState(count=count, seconds=total, wait=waited)
        return Own(
            iterations=new,
            rate=None if rate is None else 1 / own,
            seconds=None if seconds is None else seconds * own / mean,
            wait=None if wait is None else own_wait,
        )
