"""Results of commands on stored sessions: ``dlperf baselines check``, ``nodes``, ``history``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pytest_dlperf.core.case import Known
from pytest_dlperf.core.cost import CostFigure
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.outcome import PartChange


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
    #: Sessions that would be ``passed`` or ``improved``.
    certified: int
    alarms: tuple[Alarm, ...]
    #: The smallest change for the worse that can be detected, in the median session; None: none.
    sees: float | None
    #: The change for the worse up to which it passes, a share.
    tolerance: float
    #: Who gave it: ``command-line``, ``marker`` or ``baseline``; else ``default``.
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


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredCase:
    """A case of a history, where it ran."""

    case_id: str
    machine_class: str
    node: str
    outcomes: int
    #: ISO 8601, UTC.
    first: str
    last: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One outcome of a series; figures are None where they were not measured."""

    #: Number of the outcome in its history.
    number: int
    #: ISO 8601, UTC.
    time: str
    commit: str
    dirty: bool
    verdict: str
    #: Median over the runs, in the unit of the series a second.
    throughput: float | None
    #: Of the verdict: now / before - 1.
    change: float | None
    speedup: float | None
    peak_memory_bytes: float | None
    runs: int
    #: ``gate``, ``observe``, or empty where it is not known.
    mode: str
    #: Why it is not used for the level: injected, disturbed ...; empty if it is used.
    left_out: str
    #: The other arm of pairs; empty for a measurement by itself.
    against: str = ""
    #: Commit of the stored session whose code decided in pairs, their verdict and their number;
    #: empty and 0 where stored sessions decided.
    confirmed_against: str = ""
    pairs_verdict: str = ""
    pairs: int = 0
    #: Code of the finding that decided, as ``worse:peak_memory``; empty where it is not known.
    code: str = ""
    #: Names and versions that differ from those of the point before, as ``torch: 2.12 -> 2.13``.
    software_changes: tuple[str, ...] = ()

    @property
    def cause(self) -> str:
        """The code of what decided, where it says more than the verdict; else empty."""
        is_plain = self.verdict in {"passed", "improved", self.code}
        return "" if is_plain else self.code

    @property
    def confirmed(self) -> str:
        """What pairs said, in words; empty where stored sessions decided."""
        if not self.pairs:
            return ""
        pairs = "1 pair" if self.pairs == 1 else f"{self.pairs} pairs"
        commit = short_commit(self.confirmed_against)
        return f"{self.pairs_verdict} in {pairs} with {commit}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """The outcomes of one case under equal conditions on one node, oldest first."""

    case_id: str
    machine_class: str
    #: Several with commas between, of a case that ran on several.
    node: str
    unit: str
    #: Of the conditions, what is not the same in all series of the case on this node.
    conditions: Mapping[str, str]
    points: tuple[Point, ...]
    #: A digest of case, place, unit and all conditions: the same in every history.
    key: str = ""

    @property
    def level_points(self) -> tuple[Point, ...]:
        """The points that are used for the level."""
        return tuple(point for point in self.points if not point.left_out)


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A point from which on a series has another level."""

    case_id: str
    machine_class: str
    node: str
    unit: str
    #: Mean throughput of the level before, and of the one that began.
    before: float
    after: float
    #: after / before - 1.
    change: float
    #: Of Student's test at the split; not a rate of false alarms, as the split was chosen.
    p: float
    #: The first outcome of the new level, as it looks: its time, its number in the history.
    time: str
    number: int
    #: The last outcome that is certainly of the old level, the first certainly of the new one.
    last_before: Point
    first_after: Point
    points_before: int
    points_after: int
    #: What of the software differs between these two.
    software: tuple[str, ...] = ()
    #: Change of each canary metric over the same split, as a share.
    canary: Mapping[str, float] = field(default_factory=dict)


def changes_within(series: Series, changes: Iterable[Change]) -> tuple[Change, ...]:
    """Return those of ``changes`` that are of ``series``, in their order."""
    numbers = {point.number for point in series.points}
    return tuple(change for change in changes if change.last_before.number in numbers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Bisection:
    """How to find the one commit of a change."""

    change: Change
    #: The case's test, as pytest names it.
    node_id: str
    #: The last commit that is certainly of the old level, the first certainly of the new one.
    good: str
    bad: str
    #: The commands to run; empty where there is nothing to bisect.
    commands: tuple[str, ...] = ()
    #: Why there is nothing to bisect, and what to do; empty where there is.
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSession:
    """A session of a history, and the outcomes that it added."""

    #: Its own in this history, and in every later one.
    name: str
    #: Of its first outcome, ISO 8601, UTC.
    time: str
    #: Of its last outcome.
    commit: str
    #: Numbers of its outcomes, in order of time.
    outcomes: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Acknowledged:
    """A level that somebody accepted: the one before it was replaced, for a reason."""

    case_id: str
    machine_class: str
    #: ISO 8601, UTC.
    time: str
    reason: str
    #: Of the first session of the new level; empty where it is not known.
    commit: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedPoint:
    """What an outcome of a series was judged by, and what its verdict says."""

    #: Number of the outcome in its history.
    number: int
    #: The sentence of its verdict.
    reason: str
    #: The slowdown that its case declares as known.
    known_slowdown: Known | None = None
    #: Throughput of each run, in the unit of the series a second.
    runs: tuple[float, ...] = ()
    #: Throughput of the stored sessions that it was compared with; None where there were none.
    level: float | None = None
    #: The slowdown from that level up to which it passes, a share.
    tolerance: float | None = None
    #: Two-sided 90 % interval of its change from that level, as shares.
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Site:
    """All that the pages of a site show."""

    #: Of its file or database, without a folder or a host.
    name: str
    history: HistoryFound
    #: Oldest first.
    sessions: tuple[StoredSession, ...]
    acknowledged: tuple[Acknowledged, ...]
    #: Of the newest outcomes of each series.
    judged: tuple[JudgedPoint, ...]
    #: A sentence for the top of the first page; may be empty.
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SeriesOutcome:
    """An outcome of a series, and what was measured in it."""

    case_id: str
    machine_class: str
    node: str
    #: As those of the series.
    conditions: Mapping[str, str]
    time: str
    commit: str
    verdict: str
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Explained(SeriesOutcome):
    """What an outcome of a series says of the parts of its steps."""

    #: A profiled step, in milliseconds; None where nothing of before was profiled.
    before_ms: float | None
    after_ms: float | None
    parts: tuple[PartChange, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted(SeriesOutcome):
    """The figures of a step's cost in an outcome of a series."""

    figures: tuple[CostFigure, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryFound:
    """The result of a ``dlperf history`` command; what it did not look for is empty."""

    #: Its file or URL, without a password.
    history: str
    cases: tuple[StoredCase, ...] = ()
    series: tuple[Series, ...] = ()
    changes: tuple[Change, ...] = ()
    bisection: Bisection | None = None
    #: Those of a case, the oldest first.
    explained: tuple[Explained, ...] = ()
    counted: tuple[Counted, ...] = ()
    #: Series that were searched for changes.
    searched: int = 0
    #: Number of outcomes that are not used for a level, by reason.
    left_out: Mapping[str, int] = field(default_factory=dict)
