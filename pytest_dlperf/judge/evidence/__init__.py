"""Evidence: both sides of a case, metric by metric, and how they belong together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.finding import Finding
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import Comparison, Rule
from pytest_dlperf.judge.metrics import CaseMetric
from pytest_dlperf.judge.screen import ONE_LOOK, Spending
from pytest_dlperf.judge.stats.contrast import Contrast


class Kind(str, Enum):
    """How both sides belong together."""

    #: Runs of now, against stored sessions.
    SESSIONS = "sessions"
    #: Run i of now and run i of the other arm, measured side by side.
    PAIRS = "pairs"
    #: Runs as training logs report them.
    LOGS = "logs"
    #: Plain rates.
    NUMBERS = "numbers"


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """How far the loss of each run fell, and of those that it is compared with; shares of it."""

    now: tuple[float | None, ...]
    before: tuple[float, ...]
    precision: str
    #: Whose falls ``before`` are, as ``the baseline's``.
    whose: str


def loss_of(
    case: Case, now: Measurement, before: Iterable[float | None], whose: str
) -> Loss | None:
    """Return the loss of now beside known falls of before; None where it need not fall."""
    falls = tuple(fall for fall in before if fall is not None)
    if case.loss != "falls" or now.conditions.data != "synthetic" or not falls:
        return None
    return Loss(
        now=tuple(run.loss_fall for run in now.runs),
        before=falls,
        precision=case.precision,
        whose=whose,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Disagreement:
    """How rates of the same runs, computed by different rules, disagree about a change."""

    #: The change by each rule, a share.
    changes: Mapping[str, float]
    #: The stretch that differs most, in words; empty if it is not known.
    stretch: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """What is known of a case, and of what it is compared with."""

    kind: Kind
    rule: Rule
    #: Of the throughput, a second.
    unit: str
    #: The throughput of now, to show where nothing can be compared.
    throughput: float | None
    #: The other side in a sentence, and in a first line.
    against: str
    than: str = ""
    spent: Spending = ONE_LOOK
    #: None for logs and plain numbers.
    case: Case | None = None
    now: Measurement | None = None
    #: Stored sessions of the level.
    stored: tuple[Session, ...] = ()
    #: Whether there is something to compare with.
    has_level: bool = True
    #: Why a training failed, by its log; empty if it did not.
    failure: str = ""
    #: None where the loss need not fall.
    loss: Loss | None = None
    #: What is not equal on both sides, as ``unit: samples, was tokens``.
    differences: tuple[str, ...] = ()
    #: Of the runs of both sides, by the side: pairs and logs have two.
    problems: tuple[Sequence[Problem], ...] = ()
    #: Of every metric that both sides have; empty where they have no unit in common.
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)
    metrics: Mapping[str, CaseMetric] = field(default_factory=dict)
    #: What the throughput of both sides shows; None where it cannot be compared.
    contrast: Contrast | None = None
    #: The change by each other estimator of the rate.
    by_estimator: Mapping[str, Comparison] = field(default_factory=dict)
    #: Of the rates of logs; None where they agree, or where each rule is judged by itself.
    disagreement: Disagreement | None = None
    #: Whether it is slower by every reading of its runs, so that these do not matter.
    is_slower_anyway: bool = False
    #: Why a slowdown may be all that devices waiting for each other cost; empty if unknown.
    why_devices_wait: str = ""
    #: The throughput of the parent of now over that of before, less 1; None where it is unknown.
    parent_change: float | None = None
    #: Metrics of the marker that one side lacks: ``now`` or ``before``, by name.
    lacking: Mapping[str, str] = field(default_factory=dict)
    #: Figures of the throughput's finding that only one kind of evidence has.
    figures: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    #: What the evidence itself says, and decides nothing.
    notes: tuple[Finding, ...] = ()

    @property
    def rate(self) -> Comparison | None:
        """The comparison of the throughput."""
        return self.comparisons.get("throughput")

    def problem_text(self, codes: Collection[str], *, by: str = ", and ") -> str:
        """Return the messages of all sides' problems with these codes; empty for none."""
        messages = (
            problem.message for side in self.problems for problem in side if problem.code in codes
        )
        if self.kind is not Kind.LOGS:
            messages = (message.strip().rstrip(".") for message in messages)
        return by.join(dict.fromkeys(messages))
