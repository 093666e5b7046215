"""Append sessions to a history: one transaction a session, each outcome once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.store.history.address import Address
from pytest_dlperf.store.history.database import batches, writing
from pytest_dlperf.store.history.record import Record, identity_of, record_of
from pytest_dlperf.store.history.tables import OUTCOMES, SERIES, SESSIONS, SOFTWARE, WHOLE


def append(address: Address, name: str, outcomes: Iterable[Outcome], *, mode: str = "") -> int:
    """Append a session, and return how many of its outcomes were new.

    ``name`` is the session's own; ``mode`` is ``gate``, ``observe``, or empty where it is not
    known. Raises ``HistoryError``, and then nothing was written.
    """
    by_identity = {identity_of(outcome): outcome for outcome in outcomes}
    with writing(address) as connection:
        stored = _numbers(connection, OUTCOMES, "identity", list(by_identity))
    # Packed only if new, and while others may write: that takes milliseconds each
    new = [
        record_of(outcome, mode=mode) for key, outcome in by_identity.items() if key not in stored
    ]
    if not new:
        return 0
    with writing(address) as connection:
        return append_records(connection, name, new)


def append_records(connection: sa.Connection, name: str, records: Sequence[Record]) -> int:
    """Append the records that are new, in the transaction of ``connection``; return how many."""
    stored = _numbers(connection, OUTCOMES, "identity", [record.identity for record in records])
    new = [record for record in records if record.identity not in stored]
    if not new:
        return 0
    session = _number_of_session(connection, name)
    empty: dict[str, Any] = {"outcomes": 0, "first": "", "last": ""}
    series = _numbers_of(connection, SERIES, [record.series | empty for record in new])
    software = _numbers_of(connection, SOFTWARE, [record.software for record in new])
    first = _next(connection, WHOLE.c.outcome_id)
    rows = [
        record.scalars
        | {
            "id": number,
            "identity": record.identity,
            "session_id": session,
            "series_id": series[record.series["digest"]],
            "software_id": software[record.software["digest"]],
        }
        for number, record in enumerate(new, first)
    ]
    connection.execute(OUTCOMES.insert(), rows)
    connection.execute(
        WHOLE.insert(),
        [{"outcome_id": number, "json": record.whole} for number, record in enumerate(new, first)],
    )
    _count(connection, rows)
    return len(new)


def _count(connection: sa.Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Bring what the series say of their outcomes up to date."""
    times: defaultdict[int, list[str]] = defaultdict(list)
    for row in rows:
        times[row["series_id"]].append(row["time"])
    first, last = sa.bindparam("first_new"), sa.bindparam("last_new")
    new = sa.or_(SERIES.c.outcomes == 0, SERIES.c.first > first)
    connection.execute(
        SERIES.update()
        .where(SERIES.c.id == sa.bindparam("number"))
        .values(
            outcomes=SERIES.c.outcomes + sa.bindparam("added"),
            first=sa.case((new, first), else_=SERIES.c.first),
            last=sa.case((SERIES.c.last < last, last), else_=SERIES.c.last),
        ),
        [
            {"number": n, "added": len(some), "first_new": min(some), "last_new": max(some)}
            for n, some in times.items()
        ],
    )


def _number_of_session(connection: sa.Connection, name: str) -> int:
    numbers = _numbers(connection, SESSIONS, "name", [name])
    if name in numbers:
        return numbers[name]
    number = _next(connection, SESSIONS.c.id)
    connection.execute(SESSIONS.insert().values(id=number, name=name))
    return number


def _numbers_of(
    connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, Any]]
) -> dict[str, int]:
    """Return the number of each row by its digest; rows that are not there yet are inserted."""
    by_digest = {row["digest"]: row for row in rows}
    numbers = _numbers(connection, table, "digest", list(by_digest))
    missing = [row for digest, row in by_digest.items() if digest not in numbers]
    if missing:
        made = [row | {"id": n} for n, row in enumerate(missing, _next(connection, table.c.id))]
        connection.execute(table.insert(), made)
        numbers |= {row["digest"]: row["id"] for row in made}
    return numbers


def _numbers(
    connection: sa.Connection, table: sa.Table, column: str, values: Sequence[str]
) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for some in batches(values):
        query = sa.select(table.c[column], table.c.id).where(table.c[column].in_(some))
        numbers |= {row[0]: row[1] for row in connection.execute(query)}
    return numbers


def _next(connection: sa.Connection, column: sa.Column[int]) -> int:
    """Return the number of the next row: writers are alone, so that it stays so."""
    last: int | None = connection.execute(sa.select(sa.func.max(column))).scalar_one()
    return (last or 0) + 1
