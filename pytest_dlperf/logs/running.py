"""Running means undone: what the iterations since the last print did by themselves."""

from __future__ import annotations

from dataclasses import dataclass


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

    def __init__(self, since: int) -> None:
        self._since = since
        self.state = RunningState()

    def restart(self) -> None:
        """Begin an epoch."""
        self.state = RunningState()

    def undo(
        self, step: int, *, rate: float | None, seconds: float | None, wait: float | None
    ) -> Own | None:
        """Return what is new in a mean; None where it rounds to nothing, and adds to the next.

        A rate stands for the inverse of a time: printed rates have more digits than seconds.
        """
        warm = step >= self._since
        count = step - self._since + 1 if warm else step + 1
        mean = 1 / rate if rate is not None else seconds or 0.0
        total, waited = mean * count, (wait or 0.0) * count
        new = count - self.state.count
        if new < 1 or total <= self.state.seconds:
            return None
        own = (total - self.state.seconds) / new
        own_wait = max(0.0, (waited - self.state.wait) / new)
        if warm:
            self.state = RunningState(count=count, seconds=total, wait=waited)
        return Own(
            iterations=new,
            rate=None if rate is None else 1 / own,
            seconds=None if seconds is None else seconds * own / mean,
            wait=None if wait is None else own_wait,
        )
