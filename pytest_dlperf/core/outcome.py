"""Outcomes: everything about one finished case. They survive JSON (``codec.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_dlperf.core.against import Against
from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.environment import Environment
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.verdict import Judgement


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One finished case: what was asked, measured, expected, decided, and where it ran."""

    case: Case
    judgement: Judgement
    measurement: Measurement | None = None
    #: The other arm of an interleaved A/B; None where stored sessions were judged against.
    against: Against | None = None
    environment: Environment | None = None
    #: The baseline's sessions at the time, so that a report needs no baseline file.
    baseline_sessions: tuple[Session, ...] = ()
    #: The published number of the same case, and its source, where there is one.
    published: Mapping[str, str | float] = field(default_factory=dict)
    #: pytest's node id; empty where no test ran it.
    node_id: str = ""
    #: What runs just this case again, typed where the session was; empty where no test ran it.
    command: str = ""
    #: Whether the test of this outcome failed, by the session's policy.
    failed: bool = False
    #: Whether this node did its share of a training that another node judges.
    share_done: bool = False
    #: What ``--update-baselines`` did: ``created``, ``appended``, ``replaced``, or empty.
    update: str = ""
    #: ISO 8601, UTC.
    time: str = ""
    commit: str = ""
    #: Whether tracked files outside the baselines folder were modified.
    dirty: bool = False
    elapsed_s: float = 0.0
    #: Folder with the raw records of the runs.
    folder: str = ""

    @property
    def judged_throughput(self) -> float | None:
        """The rate to put beside the baseline: of pairs the one that their change is of."""
        now = self.judgement.throughput.now
        if self.against is not None and now is not None:
            return now
        return None if self.measurement is None else self.measurement.throughput
