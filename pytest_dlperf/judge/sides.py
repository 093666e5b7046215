"""Both sides of one comparison: the value of now, those of stored sessions, and their prior."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.verdict import Prior
from pytest_dlperf.judge.stats.contrast import Contrast, SessionValue
from pytest_dlperf.judge.stats.stored import contrast


@dataclass(frozen=True, kw_only=True, slots=True)
class Sides:
    """Both sides of one comparison, and the prior for its noise."""

    now: SessionValue
    stored: tuple[SessionValue, ...]
    prior: Prior
    #: 1 where higher is better, -1 where lower is.
    sign: int = 1

    def contrast(self) -> Contrast:
        """Return the contrast of both sides."""
        return contrast([self.now], self.stored, self.prior)

    @property
    def before(self) -> float:
        """The mean of the stored sessions, as people read it."""
        mean = statistics.fmean(value.value for value in self.stored)
        return float(f"{math.exp(self.sign * mean):.12g}")


def check_rates(rates: Sequence[float], what: str) -> None:
    """Raise ``CaseError`` unless every rate is finite and above 0; ``what`` names them."""
    for rate in rates:
        if not (math.isfinite(rate) and rate > 0):
            raise CaseError(
                f"{what}: a rate of {rate} is not a throughput, so nothing can be judged; "
                "look at the records of that run"
            )


def session_value(values: Sequence[float], sign: int = 1) -> SessionValue:
    """Return the value of the runs of one session; ``sign`` -1 where lower is better."""
    amount = statistics.median(values)
    return SessionValue(
        amount=amount,
        value=sign * math.log(amount),
        samples=(tuple(math.log(value) for value in values),),
    )


def ratio_value(over: Sequence[float], under: Sequence[float]) -> SessionValue:
    """Return the value of the median of some runs over that of others, as of a speedup."""
    top, bottom = session_value(over), session_value(under)
    return SessionValue(
        amount=top.amount / bottom.amount,
        value=top.value - bottom.value,
        samples=top.samples + bottom.samples,
    )
