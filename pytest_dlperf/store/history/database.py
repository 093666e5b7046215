"""Open the database of a history: SQLite or PostgreSQL, with errors that say what to do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.pool import NullPool

from pytest_dlperf.core.errors import HistoryError
from pytest_dlperf.store.history.address import Address
from pytest_dlperf.store.history.tables import BY_SERIES, METADATA, SCHEMA, UPGRADES, VERSION

T = TypeVar("T")

#: How long a writer waits for another, and for PostgreSQL to answer at all.
_BUSY_S: Final = 60
_CONNECT_S: Final = 10
#: Any number that is the same in all versions: writers of one database wait for each other.
_LOCK: Final = 0x646C70657266
#: Values in one statement; old versions of SQLite take 999 of them.
_BATCH: Final = 500


@contextlib.contextmanager
def writing(address: Address) -> Iterator[sa.Connection]:
    """Begin one transaction that writes: alone, in tables of this version, whole or not at all.

    Makes what is missing and upgrades what is older. Raises ``HistoryError`` where that cannot
    be, and for a newer version, which is left as it is.
    """
    if address.file is not None:
        _make_file(address)
    with _errors(address), _engine(address) as engine, engine.connect() as connection:
        alone = connection.execution_options(dlperf_writes=True)
        with alone.begin():
            if address.file is None:
                alone.execute(sa.text(f"SET LOCAL lock_timeout = '{_BUSY_S}s'"))
                alone.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            _bring_up_to_date(alone, address)
            yield alone


@contextlib.contextmanager
def reading(address: Address) -> Iterator[sa.Connection]:
    """Begin a transaction that only reads; raise ``HistoryError`` where there is no history."""
    if address.file is not None and not address.file.is_file():
        raise HistoryError(
            f"{address.shown}: there is no history yet; run a session, or name another with "
            "--history"
        )
    with _errors(address), _engine(address) as engine:
        with engine.connect() as connection, connection.begin():
            version = _version(connection, address)
            if version == VERSION:
                yield connection
                return
        if version is None:
            raise HistoryError(
                f"{address.shown}: there is no history in this database; run a session with "
                "--dlperf-history"
            )
        with writing(address):
            pass  # it is of an older version: upgraded now
        with engine.connect() as connection, connection.begin():
            yield connection


def batches(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Yield ``values`` in parts that one statement takes."""
    for start in range(0, len(values), _BATCH):
        yield values[start : start + _BATCH]


def _bring_up_to_date(connection: sa.Connection, address: Address) -> None:
    version = _version(connection, address)
    if version is None:
        METADATA.create_all(connection)
        connection.execute(SCHEMA.insert().values(version=VERSION))
        return
    for step in range(version, VERSION):
        for statement in UPGRADES[step]:
            connection.execute(sa.text(statement))
    if version < VERSION:
        BY_SERIES.create(connection, checkfirst=True)
        connection.execute(SCHEMA.update().values(version=VERSION))


def _version(connection: sa.Connection, address: Address) -> int | None:
    """Return the version of the tables; None if there are none, newer ones raise."""
    if not sa.inspect(connection).has_table(SCHEMA.name):
        return None
    version: int = connection.execute(sa.select(SCHEMA.c.version)).scalar_one()
    if version > VERSION:
        raise HistoryError(
            f"{address.shown}: this history is of version {version}, and this pytest-dlperf knows "
            f"those up to {VERSION}; update pytest-dlperf. Nothing was changed"
        )
    return version


def _make_file(address: Address) -> None:
    assert address.file is not None
    try:
        address.file.parent.mkdir(parents=True, exist_ok=True)
        if address.is_private:
            # SQLite would make it with the umask, in a work folder that may be open to all.
            address.file.touch(mode=0o600)
    except OSError as error:
        raise HistoryError(f"{address.shown}: cannot be made ({error.strerror})") from error


@contextlib.contextmanager
def _engine(address: Address) -> Iterator[sa.Engine]:
    arguments: dict[str, Any] = {"timeout": _BUSY_S}
    if address.file is None:
        arguments = {}
        if "connect_timeout" not in address.url.query:
            arguments["connect_timeout"] = _CONNECT_S
    try:
        engine = sa.create_engine(
            address.url, poolclass=NullPool, hide_parameters=True, connect_args=arguments
        )
    except ModuleNotFoundError as error:
        raise HistoryError(
            f"{address.shown}: {error.name} is not installed; pip install "
            "'pytest-dlperf[postgresql]'"
        ) from error
    if address.file is not None:
        event.listen(engine, "connect", _leave_transactions_to_us)
        event.listen(engine, "begin", _begin)
    try:
        yield engine
    finally:
        engine.dispose()


# sqlite3 would begin a transaction at its first INSERT only: two that had read before would
# then each wait for the other. SQLAlchemy's documentation of its dialect has these two.
def _leave_transactions_to_us(connection: Any, _record: Any) -> None:
    connection.isolation_level = None


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("dlperf_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextlib.contextmanager
def _errors(address: Address) -> Iterator[None]:
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        words = " ".join(str(cause).split())
        raise HistoryError(address.without_secrets(f"{address.shown}: {words}")) from None
