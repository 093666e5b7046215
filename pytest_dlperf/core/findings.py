"""Results of ``dlperf baselines check`` (false alarms) and ``dlperf nodes`` (speed of nodes)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """False alarms in a number of tries."""

    alarms: int
    tries: int
    #: None where there was no try.
    rate: float | None
    #: Clopper-Pearson, 95 %.
    interval: tuple[float, float] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Alarm:
    """A stored session that gate mode would have failed, by one metric."""

    time: str
    commit: str
    node: str
    #: That session / the others - 1.
    change: float
    #: Whether only observe mode called it slower, when it was measured: by the sessions that are
    #: stored now it is not.
    only_then: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedMetric:
    """One gated metric of one case, each session judged against the others of its level."""

    judged: int
    #: Sessions that would be ``unsteady``, as the others vary too much.
    unsteady: int
    #: Sessions that would be ``passed`` or ``improved``.
    certified: int
    alarms: tuple[Alarm, ...]
    #: The smallest change for the worse that can be detected, in the median session; None: none.
    sees: float | None
    #: For the current level, with all its sessions: set by hand, or learnt.
    tolerance: float
    is_tolerance_given: bool
    #: Who gave it: ``command-line``, ``marker`` or ``baseline``; else ``learnt``.
    tolerance_from: str
    #: Whether an unchanged session can be certified within that tolerance.
    can_be_certified: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedCase:
    """One measured baseline with enough sessions to be judged."""

    case_id: str
    suite: str
    machine_class: str
    #: Stored sessions of all levels.
    sessions: int
    #: Number of cases of this machine class that alpha was split over.
    family: int
    #: Whether the marker, and with it its tolerance, was found in the tests.
    is_marker_known: bool
    #: ``throughput``, and where enough sessions have them ``speedup``, ``peak_memory`` and the
    #: metrics that the marker gates.
    metrics: Mapping[str, CheckedMetric]


@dataclass(frozen=True, kw_only=True, slots=True)
class Caseless:
    """A measured baseline whose case no test declares."""

    case_id: str
    machine_class: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """All measured baselines of a folder, with their false alarms."""

    alpha: float
    #: Measured baselines, and how many of them have too few sessions to be judged.
    baselines: int
    too_few_sessions: int
    #: False alarms per comparison of one metric of one case, and per session of the suite.
    comparisons: Rate
    suite_sessions: Rate
    #: Whether the rate per session of the suite is certainly above alpha.
    above_alpha: bool
    cases: tuple[CheckedCase, ...]
    #: None where the tests were not collected.
    without_case: tuple[Caseless, ...] | None


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
