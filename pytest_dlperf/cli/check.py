"""``dlperf baselines check``: how often the gate would have raised a false alarm."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.cli import extract as extract_command
from pytest_dlperf.cli.declared_cases import Declared, declared_cases, without_case
from pytest_dlperf.cli.false_alarm_rate import check_baselines
from pytest_dlperf.cli.parser import add_shares
from pytest_dlperf.cli.stdout import say, say_json
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.command_results import (
    Alarm,
    Caseless,
    Checked,
    CheckedCase,
    CheckedMetric,
    Rate,
)
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.core.quantity import parse_share
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.report import figures
from pytest_dlperf.report.aligned import aligned
from pytest_dlperf.report.schemas import FORMAT
from pytest_dlperf.store.baseline.store import BaselineStore, StoredBaseline

#: Where the tests are looked for if none are named.
_TESTS: Final = "perf_tests"
_SHARES: Final = ("tolerance", "min-effect", "alpha")


def add_to(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    """Add the action to the parser of ``dlperf baselines``."""
    check = actions.add_parser(
        "check",
        parents=[common],
        help="the gate's own false alarms, what each case sees, baselines without a case",
        description="Judges each stored session against the others of its level.",
    )
    check.add_argument(
        "paths", nargs="*", metavar="PATH", help=f"where the tests are ({_TESTS}, where it is)"
    )
    add_shares(check, *_SHARES, tolerance="that of the marker, else 5%%")
    check.add_argument(
        "--family",
        type=extract_command.positive,
        metavar="N",
        help="number of cases that alpha is split over (those of the machine class)",
    )
    check.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    root: Path = arguments.baselines
    if not root.is_dir():
        raise UsageError(f"{root} is not a directory; name the baselines with --baselines=DIR")
    store = BaselineStore(root)
    entries = list(store.all())  # Before the tests are collected, which takes longer
    declared = _declared(arguments.paths)
    checked = check_baselines(
        store,
        _rule(arguments),
        family=arguments.family,
        declared=declared,
        without_case=None if declared is None else _caseless(entries, declared),
    )
    if arguments.json:
        say_json({"format": FORMAT, **encode(checked)})
    else:
        say(render_checked(checked))
    return 1 if checked.above_alpha or checked.without_case else 0


def _rule(arguments: argparse.Namespace) -> Rule:
    shares: dict[str, Any] = {
        name.replace("-", "_"): parse_share(text, what=f"--{name}")
        for name in _SHARES
        if (text := getattr(arguments, name.replace("-", "_"))) is not None
    }
    return Rule(**shares)


def _declared(paths: list[str]) -> Mapping[str, Declared] | None:
    """Return the cases that the tests declare; None where no tests are named or found."""
    if not paths and not Path(_TESTS).is_dir():
        return None
    return declared_cases(paths or [_TESTS])


def _caseless(
    entries: Sequence[StoredBaseline], declared: Mapping[str, Declared]
) -> list[Caseless]:
    """Return the measured baselines without a case."""
    return [
        Caseless(
            case_id=entry.baseline.case_id,
            machine_class=entry.baseline.machine_class,
            path=str(entry.path),
        )
        for entry in without_case(entries, declared)
    ]


_HEADINGS: Final = (
    "case",
    "machine class",
    "metric",
    "sessions",
    "alarms",
    "certified",
    "sees",
    "tolerance",
    "",
)
_LEFT: Final = frozenset({"case", "machine class", "metric", ""})


def render_checked(checked: Checked) -> str:
    """Return the table of cases, each alarm, both rates, and the baselines without a case."""
    lines = [*_table(checked.cases), *_alarms(checked), ""] if checked.cases else []
    return "\n".join([*lines, *_rates(checked), *_without_case(checked)])


def _table(cases: Sequence[CheckedCase]) -> list[str]:
    numbers = {i for i, heading in enumerate(_HEADINGS) if heading not in _LEFT}
    return aligned([_HEADINGS, *(row for case in cases for row in _rows(case))], right=numbers)


def _rows(case: CheckedCase) -> Iterator[tuple[str, ...]]:
    for name, metric in case.metrics.items():
        yield (
            case.case_id,
            case.machine_class,
            name.replace("_", " "),
            str(metric.judged),
            str(len(metric.alarms)),
            str(metric.certified),
            figures.percent(metric.sees, sign=False),
            figures.percent(metric.tolerance, sign=False),
            _remark(metric),
        )


def _remark(metric: CheckedMetric) -> str:
    remarks = []
    if not metric.can_be_certified:
        remarks.append("cannot be certified")
    if metric.tolerance_from != "default":
        remarks.append(f"tolerance: {metric.tolerance_from.replace('-', ' ')}")
    return ", ".join(remarks)


def _alarms(checked: Checked) -> list[str]:
    lines = [
        f"{case.case_id}: {_alarm(name, alarm)}: gate mode would have failed it"
        for case in checked.cases
        for name, metric in case.metrics.items()
        for alarm in metric.alarms
    ]
    return ["", *lines] if lines else []


def _alarm(name: str, alarm: Alarm) -> str:
    session = f"the session of {alarm.time} ({_where(alarm.commit, alarm.node)})"
    if alarm.only_then:
        return f"{session} was regressed when observe mode measured it"
    if not alarm.change:  # of a count that was 0
        return f"{name.replace('_', ' ')} of {session} is worse than that of the others"
    change = figures.percent(abs(alarm.change), sign=False)
    worse = "lower" if alarm.change < 0 else "higher"
    return f"{name.replace('_', ' ')} of {session} is {change} {worse} than that of the others"


def _where(commit: str, node: str) -> str:
    parts = [f"commit {short_commit(commit)}" if commit else "", f"node {node}" if node else ""]
    return ", ".join(part for part in parts if part) or "no commit and no node known"


def _rates(checked: Checked) -> Iterator[str]:
    judged = checked.baselines - checked.too_few_sessions
    few = checked.too_few_sessions
    yield (
        f"{checked.baselines} measured {'baseline' if checked.baselines == 1 else 'baselines'}: "
        f"{judged} judged, {few} not: fewer than 3 sessions of one level"
    )
    if not checked.cases:
        yield "store more sessions with --update-baselines, also under --dlperf-mode=observe"
        return
    yield f"false alarms per comparison: {_rate(checked.comparisons)}"
    yield (
        f"false alarms per session of the suite: {_rate(checked.suite_sessions)}; alpha is "
        f"{figures.percent(checked.alpha, sign=False)}"
    )
    suites = checked.suite_sessions
    yield (
        f"gate mode would have raised {figures.counted(suites.alarms, 'false alarm')} in "
        f"{figures.counted(suites.tries, 'session')}"
    )
    unknown = [
        case
        for case in checked.cases
        if not case.is_marker_known and case.metrics["throughput"].tolerance_from != "command-line"
    ]
    if unknown:
        yield (
            f"the tolerance in the marker of {figures.counted(len(unknown), 'case')} is not "
            "known, and another one may hold there than is shown: name the folder of the tests, "
            "or give --tolerance"
        )
    if checked.above_alpha:
        yield (
            "that is above alpha for certain: look at the sessions above, whether their machine "
            "was disturbed, or their level is another one; else the noise is not what the rule "
            "believes, so stay with --dlperf-mode=observe"
        )


def _rate(rate: Rate) -> str:
    if rate.rate is None or rate.interval is None:
        return "nothing could be judged"
    low, high = (figures.percent(end, sign=False) for end in rate.interval)
    return (
        f"{rate.alarms} of {rate.tries}, {figures.percent(rate.rate, sign=False)} "
        f"(95 % interval {low} to {high})"
    )


def _without_case(checked: Checked) -> Iterator[str]:
    if checked.without_case is None:
        yield "name the folder of the tests to learn which baselines have no case"
        return
    for one in checked.without_case:
        yield f"{one.path}: no test declares its case; dlperf baselines prune removes it"
