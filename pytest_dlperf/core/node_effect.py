"""What ``dlperf nodes`` found out: how fast each node is over all cases."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEffect:
    """One node. None throughout where it cannot be compared with another."""

    node: str
    cases: int
    #: Sessions of single cases, and sessions of the suite that they belong to.
    sessions: int
    suite_sessions: int
    #: Nodes are compared within a group: those that common cases connect, from 0 on.
    group: int
    #: Log throughput against the mean of its group, and its standard error.
    effect: float | None = None
    effect_se: float | None = None
    #: This node / the mean of the others - 1.
    change: float | None = None
    #: Two-sided, of no difference; and the same corrected for the number of nodes (Holm).
    p: float | None = None
    p_corrected: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEffects:
    """All nodes that ran cases."""

    #: A node is called slow where its corrected p value is below this.
    alpha: float
    #: Sessions that were used, and those that do not say on which node they ran.
    sessions: int
    without_node: int
    #: Sorted by group, then the slowest first.
    nodes: tuple[NodeEffect, ...]

    @property
    def slow(self) -> tuple[NodeEffect, ...]:
        """The nodes that are slower than the others of their group."""
        return tuple(
            one
            for one in self.nodes
            if one.p_corrected is not None
            and one.p_corrected < self.alpha
            and (one.change or 0.0) < 0
        )
