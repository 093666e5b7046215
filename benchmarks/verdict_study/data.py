"""What a data set gives: suites of cases, each with stored sessions, fresh runs, and pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from pytest_dlperf.core.layout import DeviceKind
    from verdict_rules.peer import Seconds

#: Cases of a suite: the family that alpha is split over.
CASES = 24
#: Runs of a stored session, and the most that a session on trial may take: the protocol's.
STORED_RUNS = 5
MOST_RUNS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseData:
    """Seconds of iterations of one case, one row a run. Nothing here is measured twice.

    Truths are the slowdowns that a data set has, 0 among them.
    """

    #: Stored sessions, the oldest first, all of unchanged code.
    history: tuple[Seconds, ...]
    #: Of each truth, the runs of the session on trial, which is none of the stored ones.
    now: Mapping[float, Seconds]
    #: Interleaved pairs, by their position: the unchanged arm, and of each truth the other.
    before: Mapping[float, Seconds]
    after: Mapping[float, Seconds]


class DataSet(Protocol):
    """A source of suites."""

    @property
    def name(self) -> str:
        """A short name, for file names and the command line."""

    @property
    def title(self) -> str:
        """What the data are, in a line."""

    @property
    def truths(self) -> tuple[float, ...]:
        """The slowdowns that were made or applied: shares of throughput lost, 0 first."""

    @property
    def device(self) -> DeviceKind:
        """Whose built-in prior counts where little is stored."""

    @property
    def has_iterations(self) -> bool:
        """Whether the iterations of a run are known, or one number a run."""

    def suite(self, rng: np.random.Generator) -> tuple[CaseData, ...]:
        """Return a fresh suite."""


def slowed(seconds: Seconds, slowdown: float) -> Seconds:
    """Return the seconds at which that share of the throughput is lost."""
    return seconds / (1 - slowdown)
