"""Baselines: the stored measurements of a case, session by session."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import ClassVar, Final

from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions
from pytest_dlperf.core.metric import StoredFigures
from pytest_dlperf.core.run import StoredScaling

#: Reasons of sessions that observe mode stores and gate mode would have refused.
OBSERVED_REGRESSED: Final = "observed: regressed"
OBSERVED_KNOWN: Final = "observed: known"
_SET_ASIDE: Final = frozenset(
    {
        OBSERVED_REGRESSED,
        OBSERVED_KNOWN,
        "observed: improved",
        "observed: inconclusive",
        "observed: unsteady",
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The origin of numbers: this tool (``measured``), or a document (``published``)."""

    kind: str = "measured"
    document: str = ""
    table: str = ""
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """One session's runs of a case, as they are stored."""

    #: ISO 8601, UTC, to the second.
    time: str
    runs: tuple[float, ...]
    speedup: float | None = None
    #: Throughputs of the parent in that session: one device, or the layout ``reference``.
    parent_runs: tuple[float, ...] = ()
    #: None: one device.
    reference: Layout | None = None
    peak_memory_bytes: tuple[float, ...] = ()
    #: The rates of the same runs by other estimators, see ``RunSummary.estimates``; empty where
    #: they are unknown.
    estimates: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    #: Metrics beside the rate, one value a run; those that all runs have.
    metrics: Mapping[str, StoredFigures] = field(default_factory=dict)
    #: Medians over the runs.
    canary: Mapping[str, float] = field(default_factory=dict)
    #: The same by node; empty where it is unknown.
    canary_by_node: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    #: None where it is unknown, as in old files.
    scaling: StoredScaling | None = None
    node: str = ""
    commit: str = ""
    #: Whether tracked files were modified, so that the commit does not say what was measured. None
    #: in files of former versions.
    dirty: bool | None = None
    software: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    loss_fall: float | None = None
    reason: str = ""

    FORMER: ClassVar[frozenset[str]] = frozenset({"machine_speed"})

    @property
    def is_set_aside(self) -> bool:
        """Whether observe mode stored it although it was not shown to be at its level.

        Such a session is used neither for the level nor for the noise.
        """
        return self.reason in _SET_ASIDE

    @property
    def may_be_modified(self) -> bool:
        """Whether tracked files were, or may have been, modified.

        Former versions did not record it, and stored such a session for a reason only.
        """
        return bool(self.reason) if self.dirty is None else self.dirty

    @property
    def identity(self) -> tuple[str, str, tuple[float, ...]]:
        """What no two sessions of a case share: the time, the commit and the runs."""
        return self.time, self.commit, self.runs

    @property
    def measured_at(self) -> datetime:
        """``time`` as a point in time. Raises ``ValueError`` for what is none."""
        return instant(self.time)


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplacedLevel:
    """A level that was replaced: its sessions, when, and why."""

    replaced: str
    reason: str
    #: Unit of the sessions; a later level may have another.
    unit: str
    sessions: tuple[Session, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """One baseline file: the stored sessions of one case on one machine class."""

    case_id: str
    machine_class: str
    suite: str
    unit: str
    sessions: tuple[Session, ...]
    #: None for published numbers, whose conditions are in ``facts``, in words.
    conditions: Conditions | None
    source: Source = field(default_factory=Source)
    history: tuple[ReplacedLevel, ...] = ()
    #: The fixed level that slow drift is measured against: the first one accepted, or that of a
    #: release. None in files that are older than anchors.
    anchor: Session | None = None
    tolerance: float | None = None
    #: For published numbers: conditions as stated, environment, accuracy, time to train ...
    facts: Mapping[str, str | float] = field(default_factory=dict)

    @property
    def level(self) -> tuple[Session, ...]:
        """The sessions that later ones are compared with; a file has at least one."""
        return level_of(self.sessions)

    @property
    def throughputs(self) -> tuple[float, ...]:
        """Throughput of every stored run."""
        return tuple(value for session in self.sessions for value in session.runs)


def instant(text: str) -> datetime:
    """Return the point in time that ``text`` names in ISO 8601, in UTC where it names no zone.

    Raises ``ValueError`` for what is none.
    """
    # Python 3.10 does not read the Z
    time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)


#: ISO 8601 as it is written here: its first ten characters are a date.
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}(T|$)")


def is_instant(text: str) -> bool:
    """Return whether ``text`` is a time as baselines and results files have it."""
    try:
        # To UTC: the first and the last year have hours that are not in it
        instant(text).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return False
    return _TIME.match(text) is not None


def level_of(sessions: Iterable[Session]) -> tuple[Session, ...]:
    """Return the sessions that are not set aside."""
    return tuple(session for session in sessions if not session.is_set_aside)
