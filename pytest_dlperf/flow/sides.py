"""Read and judge the two sides of ``dlperf judge``: logs, folders, results files, baselines."""

from __future__ import annotations

import glob
import itertools
import os
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeGuard

from pytest_dlperf.core.baseline import Baseline, is_instant
from pytest_dlperf.core.codec import DecodeError, decode
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.outcome import Outcome, results_from_json
from pytest_dlperf.core.run import Problem
from pytest_dlperf.core.verdict import GOOD, Judgement, Rule, Verdict
from pytest_dlperf.flow.from_logs import Training, numbers_of_side, side_of, side_of_logs
from pytest_dlperf.judge.evidence.logs import LogSide, failure
from pytest_dlperf.judge.evidence.numbers import Numbers
from pytest_dlperf.judge.verdict import (
    judge,
    judge_logs,
    judge_number_pairs,
    judge_numbers,
    plain_judgement,
)
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.path_words import Place, key_of, name_of
from pytest_dlperf.measure.logs.problems import implausible, with_remedy
from pytest_dlperf.report.json_ import load, read_shards
from pytest_dlperf.store.baseline.file_format import stored_twice
from pytest_dlperf.store.baseline.stored_session import session_of

_JSON_BYTES: Final = 64
_MAGIC: Final = "*?["


def read_sides(texts: Sequence[str], options: ParseOptions) -> dict[str, Training]:
    """Return the trainings of one side; several texts are the results files of one session.

    Raises ``UsageError`` as ``read_side`` does, and for a case that is in two of the files.
    """
    if len(texts) == 1:
        return read_side(texts[0], options)
    named = ", ".join(texts)
    return _measured(read_shards([Path(text) for text in texts]), named)


def read_side(text: str, options: ParseOptions) -> dict[str, Training]:
    """Return the trainings that ``text`` names: a file, a folder, a glob, or files with commas.

    Raises ``UsageError`` for a file that does not exist, cannot be read, or has no throughput,
    unless it says that its training failed.
    """
    named = _named(text)
    [first, *others] = named.paths
    if not others and first.suffix == ".json" and _is_json(first):
        return _trainings_in_json(first)
    return _trainings_in_logs([extract(path, options) for path in named.paths], named, text)


def judge_sides(
    before: Training, now: Training, rule: Rule, *, name: str = "the base", paired: bool = False
) -> Judgement:
    """Return the verdict on ``now`` against ``before``.

    By all rules if this tool measured both, else by their rates; with ``paired`` run by run.
    Neither is ``unmeasured``. Raises ``UsageError`` if runs cannot be paired.
    """
    if paired:
        if failed := failure(side_of(before), side_of(now)):
            return plain_judgement(Verdict.ERROR, failed)
        return judge_number_pairs(numbers_of_side(before, name), numbers_of_side(now, "now"), rule)
    if isinstance(before, Numbers) and isinstance(now, Numbers):
        return judge_numbers(replace(before, name=name), now, rule)
    if (
        isinstance(now, Outcome)
        and now.measurement is not None
        and not isinstance(before, LogSide | Numbers)
    ):
        baseline = before if isinstance(before, Baseline) else baseline_of(before)
        return judge(now.case, now.measurement, baseline, rule)
    return judge_logs(replace(side_of(before), name=name), side_of(now), rule)


def unmeasured(sides: Mapping[str, Training | None]) -> Judgement | None:
    """Return the verdict of the side whose numbers cannot be judged; None if all can.

    ``sides`` by the names of their files. A case that ended in an error is one whatever it had
    measured, and any other that was not measured keeps its verdict and reason.
    """
    kept = [(name, side) for name, side in sides.items() if _keeps_verdict(side)]
    if not kept:
        return None
    errors = [one for one in kept if one[1].judgement.verdict is Verdict.ERROR]
    name, side = (errors or kept)[0]
    verdict = side.judgement.verdict
    if verdict in GOOD or (side.interrupted and not errors):
        verdict = Verdict.NOT_RUN
    return plain_judgement(verdict, f"{name}: {side.judgement.reason}")


def _keeps_verdict(side: Training | None) -> TypeGuard[Outcome]:
    if not isinstance(side, Outcome):
        return False
    is_error = side.judgement.verdict is Verdict.ERROR
    return is_error or side.interrupted or side.measurement is None


def pairs_of(
    before: Mapping[str, Training], now: Mapping[str, Training]
) -> tuple[dict[str, tuple[Training | None, Training | None]], bool]:
    """Return the trainings of both sides by key, and whether there is one alone on each.

    If each side has one training, they are judged against each other, whatever their names.
    """
    if len(before) == 1 and len(now) == 1:
        [(key, training)], [training_before] = now.items(), before.values()
        return {key: (training_before, training)}, True
    keys = [*now, *(key for key in before if key not in now)]
    if not set(now) & set(before):
        raise UsageError(
            f"the two sides have no training in common: {', '.join(sorted(before)[:3])} … and "
            f"{', '.join(sorted(now)[:3])} …; logs listed with commas are runs of one training, "
            "even if their names differ"
        )
    return {key: (before.get(key), now.get(key)) for key in keys}, False


def problems_of(before: Training | None, now: Training | None) -> list[tuple[str, Problem]]:
    """Return the problems of the two sides, each with ``base`` or ``current``."""
    return [
        (side, problem)
        for side, training in (("base", before), ("current", now))
        for problem in _problems(training)
    ]


def _problems(training: Training | None) -> Sequence[Problem]:
    if isinstance(training, Outcome) and training.measurement is not None:
        return training.measurement.problems
    return (*training.problems, *training.remarks) if isinstance(training, LogSide) else ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Named:
    """The files that an argument names, and problems with how it names them."""

    paths: tuple[Path, ...]
    #: Folder below which file names identify trainings.
    root: str
    #: Whether they were listed with commas, which declares them as runs of one training.
    listed: bool = False
    #: By file.
    problems: Mapping[Path, Problem] = field(default_factory=dict)


def _named(text: str) -> _Named:
    path = Path(text)
    listed = False
    root = path.parent
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
        root = path
    elif path.exists():
        files = [path]
    elif any(character in text for character in _MAGIC):
        files = sorted(Path(name) for name in glob.glob(text, recursive=True))
        root = Path(*itertools.takewhile(lambda part: not set(_MAGIC) & set(part), path.parts))
    else:
        files, listed = [Path(part) for part in text.split(",")], True
    for file in files:
        if not file.is_file():
            raise UsageError(f"{file}: no such file")
    if not files:
        raise UsageError(f"{text}: no file")
    by_file: defaultdict[str, list[Path]] = defaultdict(list)
    for file in files:
        by_file[os.path.realpath(file)].append(file)
    problems = {
        same[0]: Problem(
            code="named-twice", message=f"{same[0]}: named more than once, it counts once"
        )
        for same in by_file.values()
        if len(same) > 1
    }
    kept = [same[0] for same in by_file.values()]
    return _Named(paths=tuple(kept), root=str(root), listed=listed, problems=problems)


def _is_json(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(_JSON_BYTES).lstrip()[:1] == b"{"


def _trainings_in_json(path: Path) -> dict[str, Training]:
    values = load(path)
    if "outcomes" in values:
        return _measured(results_from_json(values, where=str(path)), str(path))
    if "sessions" in values and "case_id" not in values:
        return {str(path): numbers_of(values, path)}
    if "sessions" in values:
        values.pop("format", None)
        try:
            baseline = decode(Baseline, values)
        except DecodeError as error:
            raise UsageError(f"{path}: {error}") from error
        for session in baseline.sessions:
            if session.time and not is_instant(session.time):
                raise UsageError(f"{path}: {session.time!r} is not a time")
        if twice := next(stored_twice(baseline), ""):
            raise UsageError(f"{path}: {twice}; remove one of the two")
        return {baseline.case_id: baseline}
    if {"verdict", "reason"} <= set(values) or "trainings" in values:
        raise UsageError(
            f"{path}: verdicts of dlperf judge on logs, without their runs; name the logs"
        )
    raise UsageError(
        f'{path}: neither a results file, nor a baseline, nor numbers ({{"unit": …, '
        '"sessions": [{"runs": […]}]}), nor a log'
    )


def _measured(outcomes: Sequence[Outcome], named: str) -> dict[str, Training]:
    """Return all cases; raise ``UsageError`` if none was measured, and none ended in an error."""
    errors = [outcome for outcome in outcomes if outcome.judgement.verdict is Verdict.ERROR]
    if not errors and all(outcome.measurement is None for outcome in outcomes):
        whys = [f"; {o.case.id}: {o.judgement.verdict}: {o.judgement.reason}" for o in outcomes]
        raise UsageError(
            f"{named}: none of its {len(outcomes)} cases was measured{''.join(whys[:1])}"
        )
    return {outcome.case.id: outcome for outcome in outcomes}


def _trainings_in_logs(
    results: Sequence[LogResult], named: _Named, text: str
) -> dict[str, Training]:
    groups: defaultdict[str, list[LogResult]] = defaultdict(list)
    for result in results:
        if result.throughput is None and not result.has_failed:
            problems = "; ".join(map(with_remedy, result.problems))
            raise UsageError(f"{result.path}: no throughput: {problems}")
        groups[key_of(result.path, result.setup, named.root, named=not named.listed)].append(
            result
        )
    trainings = {key: side_of_logs(group, text) for key, group in groups.items()}
    beyond_one, beyond_others = _implausible(groups)
    return {
        key: replace(
            side,
            problems=(*side.problems, *beyond_one[key]),
            remarks=(*_group_problems(groups[key], named), *beyond_others[key]),
        )
        for key, side in trainings.items()
    }


def _group_problems(group: Sequence[LogResult], named: _Named) -> list[Problem]:
    """Return problems with how the logs of one training were named."""
    for result in group[1:]:
        if result.format != group[0].format:
            raise UsageError(
                f"{group[0].path} is a {group[0].format} log, {result.path} one of "
                f"{result.format}: these are not runs of one training; rename one, or move it"
            )
    paths = {Path(result.path) for result in group}
    problems = [problem for path, problem in named.problems.items() if path in paths]
    names = list(dict.fromkeys(name_of(result.path) or Path(result.path).name for result in group))
    if named.listed and len({name_of(result.path) for result in group}) > 1:
        problems.append(
            Problem(
                code="several-names",
                message=f"{', '.join(names)} are taken for runs of one training, as listed",
            )
        )
    return problems


def _implausible(
    groups: Mapping[str, Sequence[LogResult]],
) -> tuple[Mapping[str, list[Problem]], Mapping[str, list[Problem]]]:
    """Return implausible speedups over one device, and over other layouts.

    Each by the key of the larger layout. As with a measured case, only a speedup over one device
    makes the larger layout doubtful; otherwise the smaller layout may have been slow.
    """
    by_model: defaultdict[str, dict[str, tuple[Place, float]]] = defaultdict(dict)
    for key, group in groups.items():
        place = Place.of(group[0].path)
        rates = [result.throughput for result in group if result.throughput is not None]
        if place is not None and rates:
            rate = statistics.median(rates)
            by_model[key.removesuffix(place.layout)][key] = (place, rate)
    over_one_device: defaultdict[str, list[Problem]] = defaultdict(list)
    over_other_layouts: defaultdict[str, list[Problem]] = defaultdict(list)
    for layouts in by_model.values():
        for (_, (small, slow)), (key, (large, fast)) in itertools.permutations(layouts.items(), 2):
            pair = {s.layout: (s.world_size, r) for s, r in ((small, slow), (large, fast))}
            if small.world_size < large.world_size:
                where = over_one_device if small.world_size == 1 else over_other_layouts
                where[key] += implausible(large.model, pair)
    return over_one_device, over_other_layouts


def baseline_of(outcome: Outcome) -> Baseline:
    """Return a baseline whose only session is the measured case."""
    assert outcome.measurement is not None
    return Baseline(
        case_id=outcome.case.id,
        machine_class=outcome.environment.machine_class if outcome.environment else "",
        suite=outcome.case.suite,
        unit=outcome.measurement.unit,
        sessions=(session_of(outcome, reason=""),),
        conditions=outcome.measurement.conditions,
    )


def numbers_of(values: dict[str, Any], path: Path) -> Numbers:
    """Return the numbers of ``{"unit": "samples/s", "sessions": [{"runs": [512.1, …]}, …]}``.

    Raises ``UsageError`` with the name of the field for anything else. Impossible rates, such as a
    negative one, are left to the judge.
    """
    unit, sessions = values.get("unit", ""), values["sessions"]
    if not isinstance(unit, str):
        raise UsageError(f"{path}: unit: {unit!r} is not a text, such as samples/s")
    if not isinstance(sessions, list) or not sessions:
        raise UsageError(f"{path}: sessions: not a list with a session in it")
    return Numbers(
        name=path.name,
        unit=unit,
        sessions=tuple(
            _runs(session, unit, f"{path}: sessions[{i}]") for i, session in enumerate(sessions)
        ),
    )


def _runs(session: Any, unit: str, where: str) -> tuple[float, ...]:
    runs = session.get("runs") if isinstance(session, dict) else None
    if not isinstance(runs, list) or not runs:
        raise UsageError(f"{where}.runs: not a list with a rate in it")
    own = session.get("unit", unit)
    if own != unit:
        raise UsageError(
            f"{where}.unit: {own!r}, but the file counts {unit!r}; bring all sessions to one unit"
        )
    for i, rate in enumerate(runs):
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            raise UsageError(f"{where}.runs[{i}]: {rate!r} is not a number")
    return tuple(_float(rate) for rate in runs)


def _float(rate: float) -> float:
    try:
        return float(rate)
    except OverflowError:
        return float("inf")  # a whole number of 400 digits
