"""Verdicts, the rule with its error rates, tolerances and expected noise, and judgements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import ClassVar, Final, Literal

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.finding import Finding, deciding, findings_by_weight

#: The slowdown up to which a case passes, where none is given.
TOLERANCE: Final = 0.05
#: The growth of the peak memory up to which a case passes; a smaller one never fails.
MEMORY_TOLERANCE: Final = 0.02


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
    #: Fewer stored sessions than this do not show how far sessions differ: a fall from them must
    #: exceed the log distance ``far``.
    enough_sessions: int = 1
    far: float = 0.0


class Verdict(str, Enum):
    """The verdict on a case."""

    ERROR = "error"
    NOT_RUN = "not-run"
    INCOMPARABLE = "incomparable"
    UNSTEADY = "unsteady"
    NO_BASELINE = "no-baseline"
    IMPROVED = "improved"
    PASSED = "passed"
    REGRESSED = "regressed"
    INCONCLUSIVE = "inconclusive"

    def __str__(self) -> str:
        return self.value


#: Counted as passed.
GOOD: Final = frozenset({Verdict.PASSED, Verdict.IMPROVED})
#: Fail by default.
BAD: Final = frozenset({Verdict.REGRESSED, Verdict.ERROR})
#: Of judgements that compared; all others refused to, or could not.
JUDGED: Final = GOOD | {Verdict.REGRESSED, Verdict.INCONCLUSIVE}
#: Neither: shown as a separate category, and failing under ``--dlperf-strict``.
NOT_JUDGED: Final = frozenset(set(Verdict) - GOOD - BAD)


WITH_PACKAGES: Final = "packages"
NEVER: Final = "never"
#: What decides where stored sessions do not (``--dlperf-confirm``): pairs of runs with the code of
#: a stored session, with its packages too, or nothing.
CONFIRM: Final = ("pairs", WITH_PACKAGES, NEVER)


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """The settings of the verdict; all shares are of 1."""

    #: The slowdown up to which a case passes; None: what the case or its baseline says, else
    #: ``TOLERANCE``.
    tolerance: float | None = None
    #: A slowdown below this is never called a regression.
    min_effect: float = 0.01
    #: Share of unchanged suites that may raise a false alarm.
    alpha: float = 0.05
    #: Number of cases that the suite judges: alpha is split over them.
    family: int = 1
    #: The part of a case's error rate that this one comparison may spend on an alarm.
    alarm_share: float = 1.0
    #: The part of a certificate's error rate that this stage of the verdict may spend.
    certify_share: float = 1.0
    #: Whether no pairs can follow, so that few stored sessions decide by what they can show.
    without_pairs: bool = False

    def __post_init__(self) -> None:
        for name in ("alpha", "tolerance", "min_effect"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise UsageError(f"{name} {value:.0%} must be below 100 %")
        if self.alpha == 0:
            raise UsageError("alpha 0 would never let a case fail; give for instance 5%")


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One metric, now against before. All None where it could not be compared."""

    #: For pairs it is computed: the median of the other arm, times 1 + ``change``.
    now: float | None = None
    before: float | None = None
    #: now / before - 1; shown of a refused comparison too, see ``is_judged``.
    change: float | None = None
    #: Two-sided 90 % interval of the same number.
    interval: tuple[float, float] | None = None
    #: The smallest slowdown (positive share) that this comparison can detect.
    sees: float | None = None
    #: The tolerance that was used.
    tolerance: float | None = None
    verdict: Verdict | None = None
    provisional: bool = False
    #: p values of two hypotheses: not slower than ``min_effect``; slower than the tolerance.
    p_regressed: float | None = None
    p_passed: float | None = None
    #: Total number of runs that would decide an open case; None where none would, or if it is not
    #: open.
    runs_needed: int | None = None
    #: Whether the change was seen and not judged: it is shown, and counts nowhere.
    refused: bool = False

    FORMER: ClassVar[frozenset[str]] = frozenset(
        {"machine_change", "machine_slope", "measured_change"}
    )

    @property
    def is_judged(self) -> bool:
        """Whether the change counts: of a refused comparison it is only shown."""
        return self.change is not None and not self.refused

    @property
    def judged_change(self) -> float | None:
        """The change for programs that take it for a verdict; None where it was refused."""
        return self.change if self.is_judged else None

    def as_refused(self, verdict: Verdict) -> Comparison:
        """Return it with ``verdict``, and without all that a verdict on the change rests on."""
        return replace(
            self,
            verdict=verdict,
            sees=None,
            tolerance=None,
            p_regressed=None,
            p_passed=None,
            runs_needed=None,
            refused=True,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Remedy:
    """One thing that lets a later session detect smaller slowdowns."""

    #: ``sessions``: further ones that are stored; ``runs``: of the later session; ``pairs``: of
    #: runs, in place of stored sessions.
    what: Literal["sessions", "runs", "pairs"]
    count: int
    #: The smallest slowdown, a share, that is detected then.
    sees: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LaterSession:
    """What a later session of the same protocol can detect, by what is stored when it begins."""

    #: The smallest slowdown, a share.
    sees: float
    #: Runs of that session, and stored sessions that it is compared with.
    runs: int
    sessions: int
    #: Whether the noise between sessions is a built-in value, as one session does not show it.
    provisional: bool
    #: The slowdown, a share, above which remedies are looked for.
    wanted: float
    #: Each with the smallest count that detects ``wanted``, or nearly what the largest does.
    remedies: tuple[Remedy, ...] = ()


class KnownState(str, Enum):
    """The state of a slowdown that the marker declares as known."""

    KNOWN = "known"
    EXPIRED = "expired"
    WORSE = "worse"
    GONE = "gone"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """The verdict on a case with its sentence, and the comparison of each gated metric."""

    verdict: Verdict
    #: The first line says what happened, by how much, and what to do next; further ones are
    #: remarks, such as what was not stored.
    reason: str
    #: What is to be read on demand: spreads, what was left out, what more runs would do.
    details: tuple[str, ...] = ()
    throughput: Comparison = field(default_factory=Comparison)
    #: Other gated metrics, where they were measured before and now: ``speedup``, ``peak_memory``
    #: and ``anchor`` against stored sessions; ``whole_window``, ``peak_memory`` and
    #: ``cpu_seconds`` of pairs.
    metrics: Mapping[str, Comparison] = field(default_factory=dict)
    #: None where the case has no known slowdown, or the verdict does not depend on it.
    known: KnownState | None = None
    #: What decided, as codes with figures: verdict and words follow from them. Empty in files of
    #: former versions.
    findings: tuple[Finding, ...] = ()

    FORMER: ClassVar[frozenset[str]] = frozenset({"by_readings"})

    @property
    def code(self) -> str:
        """The code of the finding that decided, as ``worse:peak_memory``; empty if not known."""
        finding = deciding(self.findings)
        return "" if finding is None else finding.name

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of all findings that count, each once: what decided first, notes last."""
        return tuple(dict.fromkeys(finding.name for finding in findings_by_weight(self.findings)))

    @property
    def title(self) -> str:
        """The verdict, with the code that it has beside its own: ``regressed (slower)``."""
        is_plain = self.verdict in GOOD or self.code in {"", self.verdict.value}
        return str(self.verdict) if is_plain else f"{self.verdict} ({self.code})"

    @property
    def first_line(self) -> str:
        """What happened, without remarks."""
        return self.reason.partition("\n")[0]

    @property
    def text(self) -> str:
        """The reason and all details, a line each."""
        return "\n".join([self.reason, *self.details])

    @property
    def speed_verdict(self) -> Verdict:
        """The verdict without that of memory and CPU time, which no search is made of."""
        if self.verdict is not Verdict.REGRESSED:
            return self.verdict
        window = self.metrics.get("whole_window")
        verdicts = [
            comparison.verdict
            for comparison in (self.throughput, window)
            if comparison is not None
        ]
        order = (Verdict.REGRESSED, Verdict.INCONCLUSIVE, *GOOD)
        return next((verdict for verdict in order if verdict in verdicts), Verdict.INCONCLUSIVE)
