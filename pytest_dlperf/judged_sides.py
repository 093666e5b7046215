"""The two sides of ``dlperf judge``: logs, folders of logs, results files, baseline files."""

from __future__ import annotations

import glob
import json
import statistics
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.baseline.stored_session import session_of
from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.codec import DecodeError, decode
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.outcome_json import results_from_json
from pytest_dlperf.judge.log_verdict import LogArm, LogRun, judge_logs
from pytest_dlperf.judge.verdict import judge
from pytest_dlperf.logs.extract import LogResult, extract
from pytest_dlperf.logs.summary import Place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_dlperf.core.verdict import Judgement, Rule
    from pytest_dlperf.logs.extract import Question

#: One training of a side.
Training = Outcome | Baseline | LogArm
#: Words of different teams for one precision.
PRECISIONS: Final = {"fp16": "amp", "float16": "amp", "bfloat16": "bf16", "float32": "fp32"}
_JSON_BYTES: Final = 64


def read_side(text: str, question: Question) -> dict[str, Training]:
    """Return the trainings that ``text`` names: a file, a folder, a glob, or files with commas.

    Raises ``UsageError`` for what is not there, cannot be read, or gives no throughput.
    """
    paths = _paths(text)
    if len(paths) == 1 and paths[0].suffix == ".json" and _is_json(paths[0]):
        return _of_json(paths[0])
    return _of_logs([extract(path, question) for path in paths], text)


def judge_sides(
    before: Training, now: Training, rule: Rule, *, name: str = "the base"
) -> Judgement:
    """Return the verdict on ``now`` against ``before``.

    By the whole judge where both were measured by this tool, by their rates elsewhere.
    """
    if isinstance(now, Outcome) and now.measurement is not None and not isinstance(before, LogArm):
        baseline = before if isinstance(before, Baseline) else _baseline_of(before)
        return judge(now.case, now.measurement, baseline, rule)
    return judge_logs(replace(arm_of(before), name=name), arm_of(now), rule)


def _paths(text: str) -> list[Path]:
    path = Path(text)
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
    elif path.exists():
        found = [path]
    elif any(character in text for character in "*?["):
        found = sorted(Path(name) for name in glob.glob(text, recursive=True))
    else:
        found = [Path(part) for part in text.split(",")]
    for one in found:
        if not one.is_file():
            raise UsageError(f"{one}: no such file")
    if not found:
        raise UsageError(f"{text}: no file")
    return found


def _is_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(_JSON_BYTES).lstrip()[:1] == b"{"


def _of_json(path: Path) -> dict[str, Training]:
    try:
        values: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    if "outcomes" in values:
        outcomes = results_from_json(values, where=str(path))
        measured = {o.case.id: o for o in outcomes if o.measurement is not None}
        if not measured:
            raise UsageError(f"{path}: none of its {len(outcomes)} cases was measured")
        return dict(measured)
    if "sessions" in values and "case_id" in values:
        values.pop("format", None)
        try:
            baseline = decode(Baseline, values)
        except DecodeError as error:
            raise UsageError(f"{path}: {error}") from error
        return {baseline.case_id: baseline}
    raise UsageError(f"{path}: neither a results file, nor a baseline, nor a log")


def _of_logs(results: Sequence[LogResult], text: str) -> dict[str, Training]:
    groups: defaultdict[str, list[LogResult]] = defaultdict(list)
    for result in results:
        if result.throughput is None:
            problems = "; ".join(problem.message for problem in result.problems)
            raise UsageError(f"{result.path}: no throughput: {problems}")
        groups[_key(result)].append(result)
    return {key: arm_of_logs(group, text) for key, group in groups.items()}


def _key(result: LogResult) -> str:
    place = Place.of(result.path)
    if place is not None:
        return f"{place.model}-{place.precision}-bs{place.batch_size_per_device}-{place.layout}"
    return (
        f"{result.format}-{result.precision}-bs{result.batch_size_per_device}-"
        f"{result.world_size} devices"
    )


def arm_of_logs(results: Sequence[LogResult], name: str) -> LogArm:
    """Return runs of one training, each with a throughput."""
    first = results[0]
    return LogArm(
        name=name,
        unit=first.unit or "samples",
        sessions=(tuple(r.throughput for r in results if r.throughput is not None),),
        world_size=first.world_size,
        batch_size_per_device=first.batch_size_per_device,
        precision=PRECISIONS.get(first.precision or "", first.precision),
        runs=tuple(_log_run(result) for result in results),
    )


def _log_run(result: LogResult) -> LogRun:
    estimates = result.estimates
    stall = next((p.message for p in result.problems if p.code == "unstable"), "")
    return LogRun(
        throughput=result.throughput or 0.0,
        estimates={}
        if estimates is None
        else {
            "mean_of_rates": estimates.mean_of_rates,
            "median_of_rates": estimates.median_of_rates,
            "time_weighted": estimates.time_weighted,
        },
        data_wait_share=result.data_wait_share,
        stall=f"{Path(result.path).name}: {stall}" if stall else "",
    )


def arm_of(training: Training) -> LogArm:
    """Return a training by its rates alone."""
    if isinstance(training, LogArm):
        return training
    if isinstance(training, Baseline):
        conditions = training.conditions
        return LogArm(
            name=training.case_id,
            unit=training.unit,
            sessions=tuple(session.runs for session in training.sessions if session.runs),
            world_size=conditions.world_size if conditions else None,
            batch_size_per_device=conditions.batch_size_per_device if conditions else None,
        )
    assert training.measurement is not None
    waits = [
        run.data_wait_share for run in training.measurement.runs if run.data_wait_share is not None
    ]
    return LogArm(
        name=training.case.id,
        unit=training.case.unit,
        sessions=(training.measurement.throughputs,),
        world_size=training.case.world_size,
        batch_size_per_device=training.case.batch_size_per_device,
        precision=training.case.precision,
        runs=tuple(
            LogRun(
                throughput=run.throughput,
                estimates={
                    "mean_of_rates": run.estimates["mean_of_rates"],
                    "median_of_rates": run.estimates["median_step"],
                    "time_weighted": run.throughput,
                },
                data_wait_share=statistics.median(waits) if waits else None,
            )
            for run in training.measurement.runs
        ),
    )


def _baseline_of(outcome: Outcome) -> Baseline:
    assert outcome.measurement is not None
    return Baseline(
        case_id=outcome.case.id,
        machine_class=outcome.environment.machine_class if outcome.environment else "",
        suite=outcome.case.suite,
        unit=outcome.case.unit,
        sessions=(session_of(outcome, reason=""),),
        conditions=outcome.measurement.conditions,
    )


def pairs_of(
    before: Mapping[str, Training], now: Mapping[str, Training]
) -> tuple[dict[str, tuple[Training | None, Training | None]], bool]:
    """Return the trainings of both sides by key, and whether there is one alone on each.

    One alone on each side is judged against the other, whatever they are called.
    """
    if len(before) == 1 and len(now) == 1:
        [(key, mine)], [theirs] = now.items(), before.values()
        return {key: (theirs, mine)}, True
    keys = [*now, *(key for key in before if key not in now)]
    if not set(now) & set(before):
        raise UsageError(
            f"the two sides have no training in common: {', '.join(sorted(before)[:3])} … and "
            f"{', '.join(sorted(now)[:3])} …"
        )
    return {key: (before.get(key), now.get(key)) for key in keys}, False
