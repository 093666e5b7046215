"""Explain a verdict by profiling extra launches: both arms, or now against stored profiles.

These launches are never judged or stored; what goes wrong with them is a note beside the verdict.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.frameworks import FRAMEWORKS
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.outcome import Explanation
from pytest_dlperf.core.run import Run
from pytest_dlperf.core.verdict import Comparison, Judgement, KnownState, Verdict
from pytest_dlperf.core.wire_profile import (
    ProfiledSteps,
    ProfileRecord,
    steps_in_profile,
    steps_in_stacks,
)
from pytest_dlperf.flow.looks import Measured
from pytest_dlperf.flow.runner import Runner
from pytest_dlperf.flow.watcher import STARTING
from pytest_dlperf.judge.explain.attribution import attribute, rank_of
from pytest_dlperf.judge.explain.operator_changes import Profile, kept_record
from pytest_dlperf.judge.explain.stacks_alone import has_stacks_alone
from pytest_dlperf.judge.verdict import with_finding, without_findings
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.measure.exhausted import file_words
from pytest_dlperf.measure.failure import cause_of
from pytest_dlperf.measure.records import RankRecords, read_progress, read_records
from pytest_dlperf.store.baseline import profile_file

if TYPE_CHECKING:
    from pytest_dlperf.flow.bench import Policy

#: When steps are profiled (``--dlperf-explain``).
REGRESSED: Final = "regressed"
ALWAYS: Final = "always"
NEVER: Final = "never"
#: File in the folder of a case with what may be stored beside its baseline.
PROFILE: Final = "profile.json"
_NOW: Final = "now"
#: Code of the finding that has the sentence of an explanation.
_EXPLAINED: Final = "explained"
#: A launch may take this many times the longest judged one, and this many seconds more.
_LONGER: Final = 2
_MORE_S: Final = 60.0


class ProfileError(DlperfError):
    """A launch that was to be profiled has no profile; the message says why."""


def is_wanted(policy: Policy, judgement: Judgement, *, default: str) -> bool:
    """Return whether launches are to explain the verdict; ``default`` where nothing was said."""
    when = policy.explain or default
    # Profiles say nothing of other metrics, or of a slowdown that is known
    is_worse = (
        judgement.verdict is Verdict.REGRESSED
        and (_is_slower(judgement) or _grown_memory(judgement) is not None)
        and judgement.known is not KnownState.KNOWN
    )
    return when == ALWAYS or (when == REGRESSED and is_worse)


def _is_slower(judgement: Judgement) -> bool:
    """Return whether the throughput regressed, of the whole window or by its median."""
    return judgement.speed_verdict is Verdict.REGRESSED


def slower_rate(judgement: Judgement) -> Comparison:
    """Return the rate that profiles are to show: the whole window's where it alone regressed."""
    window = judgement.metrics.get("whole_window")
    rates = [judgement.throughput, *([window] if window is not None else [])]
    regressed = [rate for rate in rates if rate.verdict is Verdict.REGRESSED]
    return (regressed or rates)[0]


def _grown_memory(judgement: Judgement) -> Comparison | None:
    """Return the comparison of the peak memory, where it regressed."""
    memory = judgement.metrics.get("peak_memory")
    return memory if memory is not None and memory.verdict is Verdict.REGRESSED else None


def explain(
    case: Case,
    runners: Mapping[str, Runner],
    order: Sequence[str],
    measured: Measured,
    *,
    stored: Sequence[ProfileRecord] = (),
) -> Explanation:
    """Profile the sides of ``order`` in turn, and return what changed between them.

    The second of ``order`` is the side of now: before, now, now, before; or now alone, twice, with
    ``stored`` profiles of the critical rank of before.
    """
    now = order[1]
    judgement = measured.judgement
    rate, memory = slower_rate(judgement), _grown_memory(judgement)
    profiles: dict[str, list[Profile]] = {side: [] for side in runners}
    runner = runners[now]
    if why := _cannot(case, runner, measured, launches=len(order)):
        return Explanation(note=why)
    runner.bench.watcher.notice(
        case,
        f"{judgement.title}: {judgement.first_line}; explains the verdict: {len(order)} more "
        "launches with a profile, not judged (Ctrl-C ends here, and keeps the verdict)",
    )
    note = ""
    traces: dict[str, str] = {}
    for number, side in enumerate(order, start=1):
        try:
            runner.bench.watcher.profiles(case, number, len(order), STARTING)
            launched = _profiled(
                case, runners[side], (number, len(order)), measured, is_before=side != now
            )
        except KeyboardInterrupt as interrupt:
            # The verdict is known, and would be lost
            runner.bench.interrupted(interrupt)
            note = f"profile {number} of {len(order)} was interrupted"
            break
        except (DlperfError, OSError) as error:
            words = file_words(error, runner.bench.folder) if isinstance(error, OSError) else error
            note = f"profile {number} of {len(order)} failed ({words})"
            break
        profiles[side].append(launched.profile)
        note = note or launched.note
        if launched.trace:
            traces.setdefault(side, launched.trace)
    if not all(profiles.values()):
        return Explanation(note=f"the cause is not known: {note}")
    before = [profile for side in profiles if side != now for profile in profiles[side]]
    try:
        rank = rank_of(profiles[now], rate, memory)
        before += [{rank: record} for record in profiles_of_stage(case, rank, stored)]
        explanation = attribute(before, profiles[now], rate, memory=memory)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        # Records of a worker of another version, in another interpreter's tree
        return Explanation(note=f"the profiles cannot be read: {type(error).__name__}: {error}")
    if len(profiles) == 1 and not has_stacks_alone(profiles[now]):
        kept = [kept_record(profile[rank], rank) for profile in profiles[now]]
        try:
            (runner.bench.folder / case.id / PROFILE).write_bytes(profile_file.to_bytes(kept))
        except OSError as error:
            note = f"the profile cannot be stored: {file_words(error, runner.bench.folder)}"
    return replace(explanation, note=note, traces=tuple(traces.values()))


def profiles_of_stage(
    case: Case, rank: int, stored: Sequence[ProfileRecord]
) -> list[ProfileRecord]:
    """Return the stored profiles of ranks that do the work of ``rank``: not of another stage."""
    degrees = case.parallelism
    stage = degrees.stage(rank)
    return [
        record
        for record in stored
        if degrees.pp == 1 or ("rank" in record and degrees.stage(record["rank"]) == stage)
    ]


def explain_stored(
    case: Case, runner: Runner, measured: Measured, profiles: Sequence[ProfileRecord]
) -> Explanation:
    """Profile now alone, and compare with stored ``profiles`` of before, if there are any.

    What was profiled is left in the folder of the case, to be stored with its baseline.
    """
    return explain(case, {_NOW: runner}, (_NOW, _NOW), measured, stored=profiles)


def explained(judgement: Judgement, explanation: Explanation) -> Judgement:
    """Return ``judgement`` with the sentence of its explanation; nothing else of it changes."""
    judgement = without_findings(judgement, {_EXPLAINED})
    if not explanation.sentence:
        return judgement
    return with_finding(judgement, _EXPLAINED, text=explanation.sentence)


def _cannot(case: Case, runner: Runner, measured: Measured, *, launches: int) -> str:
    """Return why steps of ``case`` are not profiled; empty if they can be."""
    assert measured.measurement is not None
    if case.launcher == "none" and not _is_marked(measured):
        return (
            "the cause is not known: which processes of the command are its ranks is not known "
            "without marks (pytest_dlperf.mark.step)"
        )
    framework = FRAMEWORKS.get(case.framework)
    if framework is not None and not framework.has_profiles:
        return f"the cause is not known: steps of {case.framework} cannot be profiled yet"
    if (
        _grown_memory(measured.judgement) is not None
        and not _is_slower(measured.judgement)
        and framework is not None
        and not framework.has_memory_places
    ):
        return f"where the memory grew is not known: {case.framework} does not say who allocates"
    if measured.measurement.inject:
        return "the slowdown is --dlperf-inject, so nothing was profiled"
    budget = runner.bench.policy.budget
    if budget is not None and not budget.allows(launches * _longest_s(measured)):
        return (
            f"the cause is not known: {launches} more launches would not end within the budget "
            f"of {budget.text}"
        )
    return ""


def _is_marked(measured: Measured) -> bool:
    """Return whether the ranks wrote records, as those of a program do that marks its steps."""
    assert measured.measurement is not None
    return any(run.ranks for run in measured.measurement.runs)


def _steps(case: Case, measured: Measured, *, is_before: bool) -> ProfiledSteps:
    """Return which steps of a program are profiled: equally many of both arms."""
    assert measured.measurement is not None
    step_s = _step_s(measured.measurement)
    steps = ProfiledSteps(steps_in_profile(step_s), steps_in_stacks(step_s))
    if not case.command or _is_marked(measured):
        return steps
    against = measured.against.measurement if measured.against and is_before else None
    arm = against or measured.measurement
    return steps._replace(unmarked_s=_step_s(arm))


def _step_s(measurement: Measurement) -> float:
    """Return the seconds of a step; those of a long one where a log does not say them."""
    medians = (
        statistics.median(run.step_seconds)
        for run in measurement.runs
        if not run.steps_are_relative
    )
    return min(medians, default=1.0)


def _longest_s(measured: Measured) -> float:
    assert measured.measurement is not None
    return max((run.elapsed_s for run in measured.measurement.runs), default=0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Profiled:
    profile: Profile
    note: str
    trace: str


def _profiled(
    case: Case, runner: Runner, place: tuple[int, int], measured: Measured, *, is_before: bool
) -> _Profiled:
    """Launch ``case`` once with a profile; raise ``DlperfError`` if there is none.

    ``place`` is the number of the launch, and of how many.
    """
    bench, (number, of) = runner.bench, place
    steps = _steps(case, measured, is_before=is_before)
    plan = runner.plan(case, f"explain{number}", profile=steps)
    limit_s = min(plan.timeout_s, _LONGER * _longest_s(measured) + _MORE_S)
    if (budget := bench.policy.budget) is not None:
        if not budget.allows(_longest_s(measured)):
            raise ProfileError(f"the budget of {budget.text} is spent")
        limit_s = min(limit_s, budget.left_s)

    def tick(folder: Path) -> None:
        done = min((rank.iterations for rank in read_progress(folder)), default=0)
        bench.watcher.profiles(case, number, of, f"{max(done, 0)} iterations")

    run = execute(replace(plan, timeout_s=limit_s), lease=runner.lease, on_tick=tick)
    records = read_records(Path(plan.records))
    profiles = {rank.rank: rank.by_kind["profile"] for rank in records if rank.wrote("profile")}
    problems = [profile["problem"] for profile in profiles.values() if "problem" in profile]
    if problems and run.exit_code == 0:
        raise ProfileError(problems[0])
    if problems or len(profiles) < case.ranks:
        raise ProfileError(_why_none(case, run, limit_s, records))
    notes = [profile["note"] for profile in profiles.values() if profile.get("note")]
    traces = [profile["trace"] for profile in profiles.values() if profile.get("trace")]
    return _Profiled(
        profile=profiles,
        note=notes[0] if notes else "",
        trace=str(Path(plan.records) / traces[0]) if traces else "",
    )


def _why_none(case: Case, run: Run, limit_s: float, records: Sequence[RankRecords]) -> str:
    """Return why a rank has no profile."""
    if run.timed_out:
        return f"it was ended after {limit_s:.0f} s; see {run.log}"
    has_ended = run.exit_code == 0 and all(rank.wrote("end") for rank in records)
    if has_ended and len(records) == case.ranks:
        return f"not every rank wrote one; see {run.log}"
    if case.command and run.exit_code == 0:
        return f"it ended before it was profiled or sampled, let it train longer; see {run.log}"
    cause = cause_of(case, run, records).partition("\n")[0]
    return f"{cause}; see {run.log}"
