"""What ``dlperf baselines check`` found out: how often the gate would have cried wolf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Rate:
    """How many of a number of tries were false alarms."""

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
    #: Whether it was called in observe mode when it was measured, and would not be by the sessions
    #: that are stored now.
    only_then: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedMetric:
    """One gated metric of one case, each session judged against the others of its level."""

    judged: int
    #: Sessions that would be ``unsteady``: the others scatter too much to judge anything.
    unsteady: int
    #: Sessions that would be ``passed`` or ``improved``.
    certified: int
    alarms: tuple[Alarm, ...]
    #: The smallest change for the worse that shows, in the median session; None: nothing does.
    sees: float | None
    #: Of the level of today, with all its sessions: set by hand, or learnt.
    tolerance: float
    is_tolerance_given: bool
    #: Who gave it: ``command-line``, ``marker`` or ``baseline``; else ``learnt``.
    tolerance_from: str
    #: Whether an unchanged session can be certified within that tolerance.
    can_be_certified: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedCase:
    """One measured baseline with sessions enough to be judged."""

    case_id: str
    suite: str
    machine_class: str
    #: Stored sessions of all levels.
    sessions: int
    #: Over how many comparisons of this machine class alpha was split.
    family: int
    #: Whether the tests told which tolerance its marker gives, if any.
    is_marker_known: bool
    #: ``throughput``, and ``speedup`` and ``peak_memory`` where enough sessions have them.
    metrics: Mapping[str, CheckedMetric]


@dataclass(frozen=True, kw_only=True, slots=True)
class Caseless:
    """A measured baseline whose case no test declares."""

    case_id: str
    machine_class: str
    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """All measured baselines of a folder, checked."""

    alpha: float
    #: Measured baselines, and how many of them have too few sessions to be judged.
    baselines: int
    too_few_sessions: int
    #: False alarms per comparison of one metric of one case, and per session of the suite.
    comparisons: Rate
    suite_sessions: Rate
    #: Whether the rate per session of the suite is above alpha for certain.
    above_alpha: bool
    cases: tuple[CheckedCase, ...]
    #: None where it was not asked which cases there are.
    without_case: tuple[Caseless, ...] | None
