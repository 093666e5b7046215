"""Query a history: its cases, the series of a case, whole outcomes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from pytest_dlperf.core.command_results import (
    JudgedPoint,
    Point,
    Series,
    StoredCase,
    StoredSession,
)
from pytest_dlperf.core.errors import HistoryError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.store.history.database import batches
from pytest_dlperf.store.history.record import judged_point_of, outcome_of
from pytest_dlperf.store.history.tables import (
    OUTCOMES,
    POINT_COLUMNS,
    SERIES,
    SESSIONS,
    SOFTWARE,
    WHOLE,
)


def stored_cases(connection: sa.Connection) -> tuple[StoredCase, ...]:
    """Return every case of the history with where it ran, by name."""
    query = (
        sa.select(
            SERIES.c.case_id,
            SERIES.c.machine_class,
            SERIES.c.node,
            sa.func.sum(SERIES.c.outcomes).label("outcomes"),
            sa.func.min(SERIES.c.first).label("first"),
            sa.func.max(SERIES.c.last).label("last"),
        )
        .group_by(SERIES.c.case_id, SERIES.c.machine_class, SERIES.c.node)
        .order_by(SERIES.c.case_id, SERIES.c.machine_class, SERIES.c.node)
    )
    return tuple(StoredCase(**row) for row in connection.execute(query).mappings())


def series_of(
    connection: sa.Connection,
    case_id: str = "",
    *,
    machine_class: str = "",
    node: str = "",
    since: str = "",
    dirty: bool = False,
) -> tuple[Series, ...]:
    """Return the series of a case, of all cases where none is named.

    Apart by machine class, node, unit and conditions. ``since`` is a time (ISO 8601, UTC) before
    which nothing is read; ``dirty`` lets outcomes with modified files count for the level.
    """
    wanted = {"case_id": case_id, "machine_class": machine_class, "node": node}
    asked = [SERIES.c[name] == value for name, value in wanted.items() if value]
    query = sa.select(SERIES).where(*asked).order_by(SERIES.c.id)
    rows = {row["id"]: row for row in connection.execute(query).mappings()}
    points = _points(connection, asked, since=since, dirty=dirty)
    conditions = _conditions_that_differ(rows.values())
    series = [
        Series(
            case_id=row["case_id"],
            machine_class=row["machine_class"],
            node=row["node"],
            unit=row["unit"],
            conditions=conditions[number],
            points=tuple(points[number]),
            key=row["digest"],
        )
        for number, row in rows.items()
        if points[number]
    ]
    return tuple(sorted(series, key=_order))


def whole_outcomes(connection: sa.Connection, numbers: Sequence[int]) -> tuple[Outcome, ...]:
    """Return whole outcomes by their numbers, in that order; few, as each is unpacked."""
    return tuple(
        outcome_of(whole, where=where) for _, where, whole in _whole_rows(connection, numbers)
    )


def judged_points(connection: sa.Connection, numbers: Sequence[int]) -> Iterator[JudgedPoint]:
    """Yield by what each of these outcomes was judged, in that order."""
    for number, where, whole in _whole_rows(connection, numbers):
        yield judged_point_of(whole, number=number, where=where)


def _whole_rows(
    connection: sa.Connection, numbers: Sequence[int]
) -> Iterator[tuple[int, str, bytes]]:
    """Yield the number, the name for errors and the compressed JSON of each outcome."""
    for some in batches(numbers):
        query = sa.select(WHOLE.c.outcome_id, WHOLE.c.json).where(WHOLE.c.outcome_id.in_(some))
        rows = {row[0]: row[1] for row in connection.execute(query)}
        for number in some:
            if number not in rows:
                raise HistoryError(f"outcome {number} is not in this history")
            yield number, f"outcome {number} of the history", rows[number]


def stored_software(connection: sa.Connection, case_id: str, point: Point) -> dict[str, str]:
    """Return the software of an outcome of a case, the installed packages among it."""
    query = (
        sa.select(OUTCOMES.c.software_id)
        .join(SERIES, SERIES.c.id == OUTCOMES.c.series_id)
        # By what has an index: the number of an outcome has none
        .where(
            SERIES.c.case_id == case_id,
            OUTCOMES.c.time == point.time,
            OUTCOMES.c.id == point.number,
        )
    )
    row = connection.execute(query).scalar_one()
    return _software(connection, [row])[row]


def stored_sessions(connection: sa.Connection) -> tuple[StoredSession, ...]:
    """Return every session of the history with the numbers of its outcomes, oldest first."""
    columns = (OUTCOMES.c.id, OUTCOMES.c.time, OUTCOMES.c.commit_hash)
    query = (
        sa.select(SESSIONS.c.name, *columns)
        .join(OUTCOMES, OUTCOMES.c.session_id == SESSIONS.c.id)
        .order_by(OUTCOMES.c.time, OUTCOMES.c.id)
    )
    by_session: defaultdict[str, list[tuple[int, str, str]]] = defaultdict(list)
    for name, *row in connection.execute(query):
        by_session[name].append((row[0], row[1], row[2]))
    return tuple(
        StoredSession(
            name=name, time=rows[0][1], commit=rows[-1][2], outcomes=tuple(row[0] for row in rows)
        )
        for name, rows in by_session.items()
    )


def _order(series: Series) -> tuple[str, ...]:
    key = (series.case_id, series.machine_class, series.node)
    return (*key, json.dumps(series.conditions, sort_keys=True), series.unit)


def _points(
    connection: sa.Connection,
    asked: Sequence[sa.ColumnElement[bool]],
    *,
    since: str,
    dirty: bool,
) -> defaultdict[int, list[Point]]:
    numbers = sa.select(SERIES.c.id).where(*asked)
    query = (
        sa.select(*POINT_COLUMNS)
        .where(OUTCOMES.c.series_id.in_(numbers), OUTCOMES.c.time >= since)
        .order_by(OUTCOMES.c.series_id, OUTCOMES.c.time, OUTCOMES.c.id)
    )
    rows = connection.execute(query).all()
    software = _software(connection, sorted({row[1] for row in rows}))
    points: defaultdict[int, list[Point]] = defaultdict(list)
    before: dict[int, int] = {}
    for number, now, *figures in rows:
        last = before.get(number, now)
        changes = differences(software[last], software[now]) if last != now else ()
        points[number].append(_point(figures, changes, dirty=dirty))
        before[number] = now
    return points


def _point(figures: Sequence[Any], changes: tuple[str, ...], *, dirty: bool) -> Point:
    """Return the point of a row of ``POINT_COLUMNS``, less its first two numbers."""
    (
        number, time, commit, modified, verdict, throughput, change, speedup, memory, runs, mode,
        against, inject, arm, disturbed, confirmed_against, pairs_verdict, pairs, code,
    ) = figures  # fmt: skip
    return Point(
        number=number,
        time=time,
        commit=commit,
        dirty=modified,
        verdict=verdict,
        throughput=throughput,
        change=change,
        speedup=speedup,
        peak_memory_bytes=memory,
        runs=runs,
        mode=mode,
        left_out="not measured"
        if throughput is None
        else _left_out(inject, arm, disturbed=disturbed, modified=modified and not dirty),
        against=against,
        confirmed_against=confirmed_against,
        pairs_verdict=pairs_verdict,
        pairs=pairs,
        code=code,
        software_changes=changes,
    )


def _left_out(inject: float, arm: str, *, disturbed: bool, modified: bool) -> str:
    if inject:
        return "injected"
    if arm:
        return f"measured {arm}"
    if disturbed:
        return "disturbed"
    return "modified files" if modified else ""


def _software(connection: sa.Connection, numbers: Sequence[int]) -> dict[int, dict[str, str]]:
    by_number: dict[int, dict[str, str]] = {}
    for some in batches(numbers):
        query = sa.select(SOFTWARE.c.id, SOFTWARE.c.versions).where(SOFTWARE.c.id.in_(some))
        by_number |= {number: json.loads(text) for number, text in connection.execute(query)}
    return by_number


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Return a phrase ``torch: 2.12 -> 2.13`` for each name whose version differs."""
    return tuple(
        f"{name}: {before.get(name, 'none')} -> {after.get(name, 'none')}"
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def _conditions_that_differ(rows: Iterable[Mapping[str, Any]]) -> dict[int, dict[str, str]]:
    """Return, by series, the conditions that other series of that case and place have not."""
    same_place: defaultdict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        same_place[row["case_id"], row["machine_class"], row["node"]].append(row)
    by_series: dict[int, dict[str, str]] = {}
    for place in same_place.values():
        all_of = {row["id"]: json.loads(row["conditions"]) or {} for row in place}
        measured = [conditions for conditions in all_of.values() if conditions]
        for number, conditions in all_of.items():
            by_series[number] = {
                name: json.dumps(value)
                for name, value in sorted(conditions.items())
                if any(values.get(name) != value for values in measured)
            }
    return by_series
