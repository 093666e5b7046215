"""The text output of ``dlperf history``: tables of cases and series, sentences of changes."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from pytest_dlperf.core.command_results import (
    Change,
    Explained,
    HistoryFound,
    Point,
    Series,
    SeriesOutcome,
    StoredCase,
    changes_within,
)
from pytest_dlperf.core.measurement import short_commit
from pytest_dlperf.report import figures
from pytest_dlperf.report.aligned import aligned
from pytest_dlperf.report.history_costs import costs_of
from pytest_dlperf.report.printable import one_line, printable

_CASES: Final = ("case", "machine class", "node", "outcomes", "first", "last")
_POINTS: Final = ("time", "commit", "rate", "change", "memory", "verdict", "remarks")
#: A canary that moved by this part of the change says that the machine is to blame, not a commit.
_CANARY_PART: Final = 0.5


def render_cases(history: HistoryFound) -> str:
    """Return the table of what is stored."""
    if not history.cases:
        return f"{history.history}: nothing is stored yet"
    return _text(_table([_CASES, *map(_case, history.cases)], numbers={3}))


def render_series(history: HistoryFound, *, last: int) -> str:
    """Return the series, each with its changes between the rows; ``last`` rows, 0 for all."""
    lines: list[str] = []
    for series in history.series:
        lines += [*_series(series, changes_within(series, history.changes), last), ""]
    return _text(lines).rstrip()


def render_parts_and_costs(history: HistoryFound, case: str) -> str:
    """Return the parts, or costs, of each series' outcomes beside each other, the oldest first.

    The last column is what each part, or figure, grew by, from the first to the last.
    """
    if not history.explained and not history.counted:
        return (
            f"no outcome of {case} has the parts of its steps; a regression against pairs or a "
            "stored profile has them, and --dlperf-explain=always"
        )
    lines: list[str] = []
    for head, group in itertools.groupby(history.counted, _head):
        counted = list(group)
        lines += [*head, *costs_of(counted), ""]
        lines += [*map(_sentence, counted), ""]
    for head, of_series in itertools.groupby(history.explained, _head):
        outcomes = list(of_series)
        lines += [*head, *_parts_of(outcomes), ""]
        lines += [*(_sentence(outcome) for outcome in outcomes if outcome.sentence), ""]
    return _text(lines).rstrip()


def _sentence(outcome: SeriesOutcome) -> str:
    return f"  {outcome.time} {short_commit(outcome.commit)} {outcome.verdict}: {outcome.sentence}"


def _parts_of(outcomes: Sequence[Explained]) -> list[str]:
    """Return a table: a row a part, a column an outcome; the first has one for before as well."""
    first = outcomes[0]
    columns_ms: list[tuple[str, dict[str, float]]] = []
    if first.before_ms is not None:
        columns_ms.append(("before", {part.part: part.before_ms or 0.0 for part in first.parts}))
    for outcome in outcomes:
        name = short_commit(outcome.commit) or outcome.time
        columns_ms.append((name, {part.part: part.after_ms for part in outcome.parts}))
    grew = {
        part: columns_ms[-1][1].get(part, 0.0) - columns_ms[0][1].get(part, 0.0)
        for part in {part for _, values in columns_ms for part in values}
    }
    rows = [("ms a profiled step", *(name for name, _ in columns_ms), "grew by")]
    for part in sorted(grew, key=lambda part: -grew[part]):
        cells = (f"{values.get(part, 0.0):.2f}" for _, values in columns_ms)
        rows.append((part, *cells, f"{grew[part]:+.2f}"))
    steps = (f"{sum(values.values()):.2f}" for _, values in columns_ms)
    rows.append(("step", *steps, f"{sum(grew.values()):+.2f}"))
    return [f"  {line}" for line in _table(rows, numbers=range(1, len(rows[0])))]


def render_changes(history: HistoryFound) -> str:
    """Return a paragraph for each change, and what was not looked at."""
    lines = [line for change in history.changes for line in (*change_lines(change), "")]
    number = len(history.changes)
    lines.append(
        f"{figures.counted(number, 'change')} in {figures.counted(history.searched, 'series')}"
    )
    if history.left_out:
        reasons = ", ".join(f"{count} {why}" for why, count in sorted(history.left_out.items()))
        lines.append(f"left out of the levels: {reasons}")
    return _text(lines)


def render_bisection(history: HistoryFound) -> str:
    """Return the change, and what to type."""
    bisection = history.bisection
    assert bisection is not None
    lines = [*change_lines(bisection.change), ""]
    if bisection.reason:
        return _text([*lines, f"nothing to bisect: {bisection.reason}"])
    lines.append("to find the commit, in a clean working tree of the repository:")
    return _text([*lines, *(f"  {command}" for command in bisection.commands)])


def change_lines(change: Change) -> Iterator[str]:
    """Yield the lines that tell a change: where, by how much, after which commit, what else."""
    slower = "slower" if change.change < 0 else "faster"
    yield f"{change.case_id} on {_place(change.machine_class, change.node)}"
    yield (
        f"  {figures.percent(abs(change.change), sign=False)} {slower}: "
        f"{figures.rate(change.before)} to {figures.rate(change.after)} {change.unit}/s (p "
        f"{change.p:.1g}), {change.points_after} outcomes ago; {change.points_before} before it"
    )
    yield f"  {commit_range(change)}"
    if change.software:
        yield f"  software: {'; '.join(change.software)}"
    moved = {
        name: share
        for name, share in change.canary.items()
        if share * change.change > 0 and abs(share) > _CANARY_PART * abs(change.change)
    }
    if moved:
        readings = ", ".join(f"{name} {figures.percent(share)}" for name, share in moved.items())
        yield f"  the machine changed as well, by its canary: {readings}"


def commit_range(change: Change) -> str:
    """Return ``after commit abc up to def``, with the times of both."""
    return f"{commits_of(change)} ({change.last_before.time} to {change.first_after.time})"


def commits_of(change: Change) -> str:
    """Return ``after commit abc up to def``."""
    good, bad = (short_commit(point.commit) for point in (change.last_before, change.first_after))
    if not good or not bad:
        return "between two outcomes without a commit"
    if good == bad:
        return f"at commit {good}, which has both levels"
    return f"after commit {good} up to {bad}"


def _series(series: Series, changes: Sequence[Change], last: int) -> list[str]:
    shown = series.points[-last:] if last else series.points
    hidden = len(series.points) - len(shown)
    begins = {change.number: change for change in changes}
    unseen = len(begins.keys() - {point.number for point in shown})
    lines = _head(series)
    if hidden:
        also = f", with {figures.counted(unseen, 'change')} of the level" if unseen else ""
        lines.append(f"  {hidden} earlier{also}: --last=0 shows all")
    rows = _table([_POINTS, *(_point(point, series.unit) for point in shown)], numbers={2, 3, 4})
    lines.append(rows[0])
    for point, row in zip(shown, rows[1:], strict=True):
        if change := begins.get(point.number):
            lines.append(
                f"---- {figures.rate(change.before)} to {figures.rate(change.after)} "
                f"({figures.percent(change.change)}) {commit_range(change)}"
            )
        lines.append(row)
    return lines


def _head(series: Series | SeriesOutcome) -> list[str]:
    """Return the lines that name a series: its case, its place, and what it is under."""
    lines = [f"{series.case_id} on {_place(series.machine_class, series.node)}"]
    if series.conditions:
        conditions = ", ".join(f"{name} {value}" for name, value in series.conditions.items())
        lines.append(f"  under {conditions}")
    return lines


def _point(point: Point, unit: str) -> tuple[str, ...]:
    rate = figures.rate(point.throughput)
    remarks = [point.cause] if point.cause else []
    remarks += [point.left_out] if point.left_out else []
    remarks += [f"against {point.against}"] if point.against else []
    remarks += [point.confirmed] if point.confirmed else []
    remarks += [point.mode] if point.mode == "observe" else []
    remarks += point.software_changes
    return (
        point.time,
        short_commit(point.commit) + ("+" if point.dirty else "") or figures.ABSENT,
        rate if point.throughput is None else f"{rate} {unit}/s",
        figures.percent(point.change),
        figures.memory(point.peak_memory_bytes),
        point.verdict,
        "; ".join(remarks),
    )


def _case(case: StoredCase) -> tuple[str, ...]:
    place = (case.machine_class or figures.ABSENT, case.node or figures.ABSENT)
    return (case.case_id, *place, str(case.outcomes), case.first, case.last)


def _table(rows: Sequence[Sequence[str]], *, numbers: Collection[int]) -> list[str]:
    return aligned([[one_line(cell) for cell in row] for row in rows], right=numbers)


def _text(lines: Iterable[str]) -> str:
    """Return lines that stay lines: names are what a rank's host or a results file says."""
    return "\n".join(printable(line.replace("\n", " ")) for line in lines)


def _place(machine_class: str, node: str) -> str:
    return ", ".join(filter(None, (machine_class, node))) or "an unknown machine"


_OF_SERIES: Final = ("case_id", "machine_class", "node", "unit")


_OF_POINT: Final = (
    "number",
    "time",
    "commit",
    "dirty",
    "verdict",
    "throughput",
    "change",
    "speedup",
    "peak_memory_bytes",
    "runs",
    "mode",
    "left_out",
    "against",
    "confirmed_against",
    "pairs_verdict",
    "pairs",
    "code",
)


#: Begin a formula in a spreadsheet, which text from outside must not become.
_FORMULA: Final = ("=", "+", "-", "@")


def render_csv(series: Iterable[Series]) -> str:
    """Return the text of a CSV file with a heading; what was not measured is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*_OF_SERIES, "conditions", *_OF_POINT, "software_changes"))
    for one in series:
        of_series = [_plain(getattr(one, name)) for name in _OF_SERIES]
        conditions = "; ".join(f"{name}={value}" for name, value in one.conditions.items())
        for point in one.points:
            cells = [getattr(point, name) for name in _OF_POINT]
            changes = "; ".join(point.software_changes)
            writer.writerow([*of_series, _plain(conditions), *map(_plain, cells), _plain(changes)])
    return text.getvalue()


def _plain(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = printable(value).replace("\n", "\\n").replace("\t", "\\t")
    return f"'{text}" if text.startswith(_FORMULA) else text
