"""What a mode measured of a case, and the verdict on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.outcome import Against, Explanation
from pytest_dlperf.core.verdict import Judgement
from pytest_dlperf.core.wire_records import RunFacts


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The measurement of a case and the verdict on it."""

    measurement: Measurement | None
    judgement: Judgement
    #: What the ranks of the first run reported.
    facts: RunFacts = field(default_factory=RunFacts)
    #: The other arm, with what it measured; None without an A/B.
    against: Against | None = None
    #: Installed packages of the other arm; none without an A/B.
    packages_before: Mapping[str, str] = field(default_factory=dict)
    #: Why it got slower; None where nothing was profiled.
    explanation: Explanation | None = None
    #: Whether this node ran its part of a case that another node judges.
    share_done: bool = False
