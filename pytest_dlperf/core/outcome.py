"""Outcomes: everything about one finished case, and results files, which hold outcomes as JSON.

In JSON an outcome also has the ``id`` of its case and the summary figures ``DERIVED``; a judgement
has the keys of its throughput's comparison directly, and the codes ``DERIVED_CODES``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pytest_dlperf.core.arm import ArmKind
from pytest_dlperf.core.baseline import Session, is_instant
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.codec import DecodeError, decode, encode
from pytest_dlperf.core.cost import CostComparison
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.measurement import Environment, Measurement
from pytest_dlperf.core.packages import PACKAGES, PackageChange
from pytest_dlperf.core.secret_texts import masked_values
from pytest_dlperf.core.verdict import JUDGED, Judgement, LaterSession
from pytest_dlperf.core.writable import writable_values


@dataclass(frozen=True, kw_only=True, slots=True)
class PartChange:
    """A part of a step, such as the exposed communication. All times are milliseconds a step.

    The parts of a step are disjoint, and add up to the step.
    """

    part: str
    #: None without a profile of before.
    before_ms: float | None
    after_ms: float
    difference_ms: float | None
    #: Of the difference of the whole step; None where the profiles do not show the judged one.
    share: float | None
    #: Whether the difference is beyond the spread of equal profiles.
    named: bool
    #: What the operators differ by whose calls were added or removed, where the others differ
    #: within that spread: certain also where the speed differs from launch to launch.
    by_calls_ms: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorChange:
    """An operator at one place of the model; milliseconds and calls of one step.

    Its time is its own, without the operators that it calls.
    """

    #: Path of the module that called it, and the phase: ``layer1.conv (backward)``.
    path: str
    operator: str
    part: str
    #: None without a profile of before.
    before_calls: float | None
    after_calls: float
    before_ms: float | None
    after_ms: float
    difference_ms: float | None
    named: bool
    #: Kernels that it starts on a GPU; empty on a CPU.
    before_kernels: tuple[str, ...] = ()
    after_kernels: tuple[str, ...] = ()

    @property
    def is_added(self) -> bool:
        """Whether it was not called before."""
        return self.before_calls == 0 and self.after_calls > 0

    @property
    def is_removed(self) -> bool:
        """Whether it is no longer called."""
        return self.after_calls == 0 and bool(self.before_calls)


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleTime:
    """The time of all operators of a module, without those of the modules within it."""

    #: As in ``OperatorChange``.
    path: str
    #: None without a profile of before.
    before_ms: float | None
    after_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class RankWait:
    """How long a rank is in communication that no computation hides, in milliseconds a step.

    What it has more than the critical rank is its wait for that rank.
    """

    rank: int
    before_ms: float | None
    after_ms: float
    #: Whether its wait for the critical rank grew by more than equal profiles differ by.
    named: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryChange:
    """What is allocated at the peak, and was allocated at one place of the program."""

    #: The innermost frame of the user's program, and the operator.
    place: str
    #: None without a profile of before.
    before_bytes: float | None
    after_bytes: float
    before_count: float | None
    after_count: float
    named: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class StackTime:
    """Where the host's own program is, as py-spy samples it, in milliseconds a step."""

    #: The outermost first, joined by ``;``.
    frames: str
    before_ms: float | None
    after_ms: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """What the profiles of a case show of the change of its speed.

    ``sentence`` sums it up; where nothing could be profiled it is empty, and ``note`` says why.
    """

    sentence: str = ""
    note: str = ""
    #: The rank that the others wait for: the tables are of its steps.
    rank: int | None = None
    #: A step, in milliseconds; those of the profiles, which are longer than measured ones.
    before_ms: float | None = None
    after_ms: float | None = None
    #: Whether the profiles show the judged change; None where there is nothing to compare.
    agrees: bool | None = None
    parts: tuple[PartChange, ...] = ()
    #: Added and removed ones first, then those with the largest differences.
    operators: tuple[OperatorChange, ...] = ()
    #: Kernels and copies that a step starts on the GPU; None on a CPU.
    before_launches: float | None = None
    after_launches: float | None = None
    #: Those with the most time, in the order of their paths.
    modules: tuple[ModuleTime, ...] = ()
    #: Of all ranks, where the profiles have more than one.
    ranks: tuple[RankWait, ...] = ()
    #: Bytes at the peak of some steps; None where the profiler does not know them.
    before_peak_bytes: float | None = None
    after_peak_bytes: float | None = None
    #: Those with the largest differences first.
    memory: tuple[MemoryChange, ...] = ()
    #: Where Python and launches differ most, and py-spy is installed.
    stacks: tuple[StackTime, ...] = ()
    #: Files for a viewer of traces.
    traces: tuple[str, ...] = ()


#: Version of results files. 1: the first.
RESULTS_FORMAT: Final = 1
#: Lists and objects within each other that a results file may have; it has some ten.
_DEPTH: Final = 50
#: Figures that are written for readers, and computed again when read.
DERIVED: Final = ("throughput", "speedup", "efficiency", "peak_memory_bytes")
#: The same of a judgement: the code of what decided, and all codes that count.
DERIVED_CODES: Final = ("code", "codes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Against:
    """What a case was measured against, run for run."""

    #: As the user named it.
    name: str
    kind: ArmKind
    #: The commit of a ref; empty for the rest.
    commit: str = ""
    #: The arm that was measured as ``now``; empty for this environment and tree.
    now: str = ""
    #: Runs in the order of pairs: run i belongs to run i of the outcome's own measurement.
    measurement: Measurement | None = None
    #: Software of the arm: framework and its version, Python, CUDA ...
    software: Mapping[str, str] = field(default_factory=dict)
    #: Which arm ran first in each pair that was launched, disturbed ones too: ``now``, ``before``;
    #: ``both`` for a pair in lock-step.
    order: tuple[str, ...] = ()
    #: Whether nothing that the case imports differs between the arms; then nothing was compared.
    unaffected: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PackagePairs:
    """Pairs of runs with the packages of a stored session, as far as they could be installed."""

    #: None where no pair was possible.
    pairs: Judgement | None = None
    #: The other arm, and the runs of now in the pairs.
    against: Against | None = None
    measurement: Measurement | None = None
    #: Why no pair was possible; empty where some were.
    impossible: str = ""
    #: Pairs of the search among packages, whose runs are in the session's folder alone.
    search_pairs: int = 0
    #: Those that make the case slower: several where they move together, only together do it, or
    #: ``undecided`` says why no single ones are known.
    slower: tuple[PackageChange, ...] = ()
    undecided: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Confirmation:
    """The second stage of a verdict: pairs of runs with the code of a stored session."""

    #: The judgement by the stored sessions alone.
    stored: Judgement
    #: Commit of that session; empty where it is not known.
    commit: str = ""
    #: Whether the session is the anchor of the baseline; else it is the last one of the level.
    anchor: bool = False
    #: The judgement by pairs; None where none were run.
    pairs: Judgement | None = None
    #: The other arm of the pairs, and the runs of now in them.
    against: Against | None = None
    measurement: Measurement | None = None
    #: The slowdown up to which pairs pass, a share; None in files of former versions.
    tolerance: float | None = None
    #: Whether the budget had no time for a pair, or for as many as would decide.
    is_cut_short: bool = False
    #: Whether no file that ranks import differs from that commit.
    same_code: bool = False
    #: Why no pair was possible; empty where some were, or none was needed.
    impossible: str = ""
    #: What else than the code changed since that session, in words.
    environment: tuple[str, ...] = ()
    #: None where packages were not asked for, or are not what is left to explain.
    packages: PackagePairs | None = None
    elapsed_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """One finished case: the case, its measurement, its verdict, and where it ran."""

    case: Case
    judgement: Judgement
    measurement: Measurement | None = None
    #: The other arm of an interleaved A/B; None where stored sessions were judged against.
    against: Against | None = None
    #: What pairs showed of a case that stored sessions left open; None where they decided.
    confirmation: Confirmation | None = None
    environment: Environment | None = None
    #: Why it got slower, by profiles; None where none were taken.
    explanation: Explanation | None = None
    #: The cost of a step, in place of a measurement; None where steps were timed.
    cost: CostComparison | None = None
    #: Packages whose versions are not those of the baseline's last session, or of the other arm.
    package_changes: tuple[PackageChange, ...] = ()
    #: The baseline's sessions at the time, so that a report needs no baseline file.
    baseline_sessions: tuple[Session, ...] = ()
    #: The published number of the same case, and its source, where there is one.
    published: Mapping[str, str | float] = field(default_factory=dict)
    #: pytest's node id; empty where no test ran it.
    node_id: str = ""
    #: The command that runs just this case again, in the session's folder; empty without a test.
    command: str = ""
    #: Whether the test of this outcome failed, by the session's policy.
    failed: bool = False
    #: Whether this node ran its part of a training that another node judges; results files have
    #: the name.
    share_done: bool = False
    #: Whether the session or the test ended before the case was measured; one that resumes the
    #: session measures it.
    interrupted: bool = False
    #: The results file that it was taken from, by ``--dlperf-resume``; empty if it was measured.
    taken_from: str = ""
    #: What ``--update-baselines`` did: ``created``, ``appended``, ``replaced``, or empty.
    update: str = ""
    #: What a later session can detect by what was stored; None where nothing was stored.
    later: LaterSession | None = None
    #: ISO 8601, UTC.
    time: str = ""
    commit: str = ""
    #: Whether tracked files outside the baselines folder were modified.
    dirty: bool = False
    #: Why git did not say the commit, or what is modified, of a repository; empty if it did.
    checkout_problem: str = ""
    elapsed_s: float = 0.0
    #: Folder with the raw records of the runs.
    folder: str = ""

    @property
    def judged_throughput(self) -> float | None:
        """The rate to show next to the baseline: the one that the change is of.

        Of pairs it is computed.
        """
        throughput = self.judgement.throughput
        second = self.confirmation
        in_pairs = self.against is not None or (
            second is not None
            and (second.pairs or (second.packages and second.packages.pairs)) is not None
        )
        if throughput.now is not None and in_pairs:
            return throughput.now
        return None if self.measurement is None else self.measurement.throughput


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    """Return ``outcome`` in plain JSON types."""
    values: dict[str, Any] = encode(outcome)
    values["case"]["id"] = outcome.case.id
    values["judgement"] = judgement_to_json(outcome.judgement)
    if (stages := outcome.confirmation) is not None:
        written_stages = values["confirmation"]
        written_stages["stored"] = judgement_to_json(stages.stored)
        if stages.pairs is not None:
            written_stages["pairs"] = judgement_to_json(stages.pairs)
        if stages.packages is not None and stages.packages.pairs is not None:
            written_stages["packages"]["pairs"] = judgement_to_json(stages.packages.pairs)
    sides: list[tuple[Measurement | None, Any]] = [(outcome.measurement, values)]
    if outcome.against is not None:
        sides.append((outcome.against.measurement, values["against"]))
    if (second := outcome.confirmation) is not None:
        sides += _sides(second, values["confirmation"])
        if second.packages is not None:
            sides += _sides(second.packages, values["confirmation"]["packages"])
    for measured, written in sides:
        if measured:
            written["measurement"] |= {name: getattr(measured, name) for name in DERIVED}
    return values


def judgement_to_json(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement in plain JSON types, with its throughput's figures and its codes."""
    values: dict[str, Any] = encode(judgement)
    codes = {"code": judgement.code, "codes": list(judgement.codes)}
    return {**values.pop("throughput"), **values, **codes}


def _sides(
    pairs: Confirmation | PackagePairs, values: dict[str, Any]
) -> Iterator[tuple[Measurement | None, Any]]:
    yield pairs.measurement, values
    if pairs.against is not None:
        yield pairs.against.measurement, values["against"]


def _judgements(values: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each judgement of an outcome in JSON: what holds it, and its name there."""
    yield values, "judgement"
    second = values.get("confirmation") or {}
    for holder, name in (
        (second, "stored"),
        (second, "pairs"),
        (second.get("packages") or {}, "pairs"),
    ):
        if holder.get(name) is not None:
            yield holder, name


def _with_throughput(judgement: dict[str, Any]) -> dict[str, Any]:
    """Return a judgement whose comparison of the throughput is a field of it."""
    rate = dict(judgement)
    own = {key: rate.pop(key) for key in ("verdict", "reason", "metrics")}
    own["known"] = rate.pop("known", None)
    own["details"] = rate.pop("details", [])
    own["findings"] = rate.pop("findings", [])
    for name in (*DERIVED_CODES, "by_readings"):  # the last one of former versions
        rate.pop(name, None)
    if "refused" not in rate:  # a file of before
        is_shown = rate.get("change") is not None
        rate["refused"] = is_shown and own["verdict"] not in JUDGED
    return {**own, "throughput": {**rate, "verdict": None}}


#: By these cases, files and levels are found, or they are words of ours: they stay as they are.
_NAMES: Final = frozenset(
    {
        "case", "case_id", "code", "codes", "commit", "folder", "hardware", "id", "machine_class",
        "node_id", "time", "unit", "verdict",
    }
)  # fmt: skip


def as_written(outcome: Outcome, secrets: Sequence[str]) -> Outcome:
    """Return ``outcome`` as a results file holds it: every text writable, and no secret in it.

    Raises ``UsageError`` or ``ValueError`` for one that no results file can hold, such as one
    with a number that is not finite.
    """
    values = writable_values(outcome_to_json(outcome))
    values = masked_values(values, secrets, but=_NAMES)
    values["case"] |= case_as_written(outcome.case, secrets)
    for holder, name in _judgements(values):
        for finding in holder[name]["findings"]:
            # Among figures no name is that of a file or a case
            finding["figures"] = masked_values(finding["figures"], secrets)
    return outcome_from_json(json.loads(json.dumps(values, allow_nan=False)))


def case_as_written(case: Case, secrets: Sequence[str]) -> dict[str, Any]:
    """Return the fields of ``case`` as a results file holds them, without secrets."""
    values: dict[str, Any] = writable_values(encode(case))
    return values | {name: masked_values(values[name], secrets) for name in ("command", "options")}


def outcome_from_json(values: Any) -> Outcome:
    """Return the outcome that ``outcome_to_json`` wrote; raise ``UsageError`` if it is invalid."""
    try:
        values = {key: dict(v) if isinstance(v, dict) else v for key, v in values.items()}
        for name in ("case", "judgement"):
            if not isinstance(values[name], dict):
                raise DecodeError(f"{name}: expected an object, found {values[name]!r}")
        values["case"].pop("id", None)
        if isinstance(values.get("against"), dict):
            values["against"] = _without_derived(values["against"])
        if isinstance(second := values.get("confirmation"), dict):
            second = values["confirmation"] = _without_derived_in_pairs(second)
            if isinstance(second.get("packages"), dict):
                second["packages"] = _without_derived_in_pairs(second["packages"])
        for holder, name in _judgements(values):
            holder[name] = _with_throughput(holder[name])
        return decode(Outcome, _without_derived(values))
    except (KeyError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"not an outcome: {error}") from error


def _without_derived_in_pairs(values: dict[str, Any]) -> dict[str, Any]:
    plain = _without_derived(values)
    if isinstance(plain.get("against"), dict):
        plain["against"] = _without_derived(plain["against"])
    return plain


def _without_derived(values: dict[str, Any]) -> dict[str, Any]:
    measured = values.get("measurement")
    if not isinstance(measured, dict):
        return dict(values)
    kept = {name: value for name, value in measured.items() if name not in DERIVED}
    return {**values, "measurement": kept}


def results_to_json(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the contents of a results file, with each list of packages once."""
    values = [outcome_to_json(outcome) for outcome in outcomes]
    lists: dict[str, dict[str, str]] = {}
    for one in values:
        if one["environment"] and (packages := one["environment"].pop("packages")):
            lists[one["environment"]["software"][PACKAGES]] = packages
    return {"format": RESULTS_FORMAT, "outcomes": values, "packages": lists}


def results_from_json(values: Any, *, where: str) -> tuple[Outcome, ...]:
    """Return the outcomes of a results file; ``where`` names it in ``UsageError``."""
    if not isinstance(values, dict) or not isinstance(values.get("outcomes"), list):
        raise UsageError(f"{where}: not a results file of --dlperf-json")
    if values.get("format") != RESULTS_FORMAT:
        raise UsageError(
            f"{where}: format {values.get('format')!r}, this version reads {RESULTS_FORMAT}"
        )
    if not _is_shallow(values):
        raise UsageError(f"{where}: it is nested more than {_DEPTH} deep, as no results file is")
    try:
        outcomes = tuple(outcome_from_json(item) for item in values["outcomes"])
        for outcome in outcomes:
            _check_times(outcome)
        lists = decode(dict[str, dict[str, str]], values.get("packages", {}), "packages")
        return tuple(_with_packages(outcome, lists) for outcome in outcomes)
    except DecodeError as error:
        raise UsageError(f"{where}: {error}") from error
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _is_shallow(values: Any) -> bool:
    """Return whether lists and objects are nested at most ``_DEPTH`` deep."""
    level = [values]
    for _ in range(_DEPTH):
        level = [
            item
            for holder in level
            if isinstance(holder, dict | list)
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
    return not any(isinstance(value, dict | list) for value in level)


def _check_times(outcome: Outcome) -> None:
    """Raise ``DecodeError`` for a time that is none; only what was not measured may have none."""
    times = [session.time for session in outcome.baseline_sessions if session.time]
    if outcome.time or outcome.measurement is not None:
        times.append(outcome.time)
    for time in times:
        if not is_instant(time):
            raise DecodeError(f"{outcome.case.id}: {time!r} is not a time")


def _with_packages(outcome: Outcome, lists: Mapping[str, Mapping[str, str]]) -> Outcome:
    environment = outcome.environment
    packages = lists.get(environment.software.get(PACKAGES, "")) if environment else None
    if environment is None or packages is None:
        return outcome
    return replace(outcome, environment=replace(environment, packages=packages))
