"""Check the name of a history: a file, or a URL of SQLite or PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pytest_dlperf.core.errors import UsageError

Database = Literal["sqlite", "postgresql"]

#: As libpq takes them too.
_SCHEMES: Final[dict[str, Database]] = {
    "sqlite": "sqlite",
    "postgresql": "postgresql",
    "postgres": "postgresql",
}
#: The one module that reaches each, as URLs of SQLAlchemy name it.
DRIVERS: Final[dict[Database, str]] = {"sqlite": "pysqlite", "postgresql": "psycopg"}


def is_url(text: str) -> bool:
    """Return whether ``text`` is to be read as a URL, and not as a file."""
    return "://" in text


def database_of(text: str, *, what: str) -> Database:
    """Return the database that ``text`` is of.

    Raises ``UsageError`` for a URL of another; ``what`` is the option. Nothing of the URL is
    quoted but its scheme: it may hold a password.
    """
    if not is_url(text):
        return "sqlite"
    scheme, _, driver = text.partition("://")[0].partition("+")
    database = _SCHEMES.get(scheme)
    if database is None:
        raise UsageError(
            f"{what}: {scheme} is not supported; give a file, or postgresql://user@host/database"
        )
    if driver not in {"", DRIVERS[database]}:
        raise UsageError(
            f"{what}: {scheme}+{driver}:// is not supported, {DRIVERS[database]} is what reaches "
            f"the database; write {database}://"
        )
    return database


def check_file(file: Path, *, what: str) -> None:
    """Raise ``UsageError`` where ``file`` can be none of SQLite: a folder, or below a file."""
    if file.is_dir():
        raise UsageError(f"{what}: {file} is a folder; give a file, as history.sqlite in it")
    for above in file.parents:
        if above.exists():
            if not above.is_dir():
                raise UsageError(f"{what}: {file} is below {above}, which is a file")
            return
