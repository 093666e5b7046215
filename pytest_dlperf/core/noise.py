"""The noise of a machine class: standard deviations of log values, learnt or built in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: Learnt noise counts as known from so many cases, and sessions beyond their first ones, on.
_CASES: Final = 3
_SESSIONS: Final = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Prior:
    """Standard deviations of log values that are expected, and how many samples that is worth."""

    #: Between runs (launches) of one session.
    run_sd: float
    #: Between sessions, on top of what their runs explain: day, clocks, placement.
    session_sd: float
    #: ``run_sd`` counts as much as this many degrees of freedom of the case's own values.
    run_df: float = 8.0
    session_df: float = 8.0
    #: Between nodes of one machine class, on top of that; counts as ``node_df``. GPUs of one
    #: model differ by 8 % on average within a cluster, from the slowest to the fastest (Sinha et
    #: al., SC22, https://arxiv.org/abs/2208.11035): about 2 % of standard deviation.
    node_sd: float = 0.02
    node_df: float = 8.0
    #: Between runs by their median iteration, which stalls hardly move; None where not known.
    median_run_sd: float | None = None
    median_run_df: float = 8.0
    #: Log distance that a fall from one stored session must exceed where runs vary by more than
    #: ``quiet_run_sd``, beyond chance: unchanged sessions were seen nearly as far apart. 0: none.
    far: float = 0.0
    quiet_run_sd: float = 0.0
    #: Whether it was learnt from enough stored sessions of this machine class.
    learnt: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class LearntNoise:
    """The noise of the cases of one world size, and from how much data it was learnt."""

    run_sd: float
    run_df: float
    session_sd: float
    session_df: float
    #: Cases, and their stored sessions, that it was learnt from.
    cases: int
    sessions: int
    #: The same for the median iteration of runs; None where too few stored runs have it.
    median_run_sd: float | None = None
    median_run_df: float | None = None

    @property
    def prior(self) -> Prior:
        """Return it as the prior of another case of that world size."""
        return Prior(
            run_sd=self.run_sd,
            session_sd=self.session_sd,
            run_df=self.run_df,
            session_df=self.session_df,
            median_run_sd=self.median_run_sd,
            median_run_df=self.median_run_df or self.run_df,
            learnt=self.cases >= _CASES and self.sessions - self.cases >= _SESSIONS,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineNoise:
    """One ``noise.json``: the noise of throughput on a machine class."""

    machine_class: str
    #: By world size, in digits.
    world_sizes: Mapping[str, LearntNoise]

    def prior(self, world_size: int) -> Prior | None:
        """Return the prior of cases of ``world_size``; None if there is none."""
        known = self.world_sizes.get(str(world_size))
        return None if known is None else known.prior
