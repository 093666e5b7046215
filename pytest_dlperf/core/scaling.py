"""What a run tells of its scaling: each rank's own time, collectives, and the links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class RankScaling:
    """What a few iterations after the window told of one rank; ``docs/scaling.md``."""

    rank: int
    node: str
    #: Of an iteration as the training does it.
    step_seconds: float
    #: Of an iteration in which the rank waits for no other; None where that cannot be had.
    own_seconds: float | None = None
    #: What collectives add to an iteration, with the wait for slower ranks; by a timeline: how
    #: long they go on, without it.
    collective_seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling:
    """What the ranks of one run told of scaling, after its window."""

    #: How collectives were told apart; shares of two methods are not compared.
    method: str = ""
    #: What they are: ``all-reduce``, or ``collectives`` where the step calls others itself.
    collective: str = "all-reduce"
    ranks: tuple[RankScaling, ...] = ()
    #: What collectives add to an iteration of the slowest rank, which waits for nobody; None
    #: where it is not known.
    collectives_share: float | None = None
    #: Bytes of the message over seconds, of the slowest rank; by bytes. Sizes that a slow link
    #: leaves no time for are absent.
    all_reduce_gb_per_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredScaling:
    """What is stored of a session's scaling."""

    method: str = ""
    collective: str = "all-reduce"
    #: Of each run that knows it.
    collectives_shares: tuple[float, ...] = ()
    #: By which share the slowest rank's own time was above the others', of each run; and what it
    #: was taken from: see ``core/skew.py``.
    skew_of: str = ""
    skews: tuple[float, ...] = ()
    #: Medians over the runs, by bytes.
    all_reduce_gb_per_s: Mapping[str, float] = field(default_factory=dict)
