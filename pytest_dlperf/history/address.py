"""Where a history lies: a file for SQLite, or the URL of a database."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL

from pytest_dlperf.core.errors import UsageError

#: Names of URL parameters, or ends of such, whose values are shown to nobody.
_SECRET: Final = ("password", "passfile", "secret", "token")
_MASK: Final = "***"


@dataclass(frozen=True, kw_only=True)
class Address:
    """A database, and how it is named where people can read it."""

    #: With its password: never to be printed.
    url: URL = field(repr=False)
    #: The same without.
    shown: str
    #: The file of SQLite; None for PostgreSQL.
    file: Path | None

    def without_secrets(self, text: str) -> str:
        """Return ``text`` without the values that ``shown`` leaves out."""
        values = [self.url.password or "", *_secret_values(self.url)]
        for value in filter(None, values):
            text = text.replace(str(value), _MASK)
        return text


def parse_address(text: str, *, folder: Path, what: str) -> Address:
    """Return the address that ``text`` is; relative files are in ``folder``.

    ``what`` is the option, for ``UsageError``.
    """
    if "://" not in text:
        return file_address(folder / Path(text).expanduser())
    try:
        url = sa.make_url(text)
        backend = url.get_backend_name()
    except (sa.exc.ArgumentError, ValueError):
        # The error of the library quotes what it was given
        raise UsageError(
            f"{what}: not a URL that SQLAlchemy reads; give a file, or "
            "postgresql://user@host/database"
        ) from None
    if backend == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UsageError(f"{what}={text}: it names no file; give the path of one")
        return file_address(folder / url.database)
    if backend not in {"postgresql", "postgres"}:
        raise UsageError(f"{what}: {backend} is not supported; give SQLite or PostgreSQL")
    if "+" not in url.drivername:
        # SQLAlchemy 2.0 would take psycopg2 for it
        url = url.set(drivername="postgresql+psycopg")
    return Address(url=url, shown=_shown(url), file=None)


def file_address(file: Path) -> Address:
    """Return the address of a SQLite file."""
    whole = file.absolute()
    url = URL.create("sqlite", database=str(whole))
    return Address(url=url, shown=str(whole), file=whole)


def _shown(url: URL) -> str:
    masked = {key: _MASK for key in url.query if key.endswith(_SECRET)}
    plain = url.set(drivername="postgresql").update_query_dict(masked)
    shown: str = plain.render_as_string(hide_password=True).replace(quote(_MASK), _MASK)
    return shown


def _secret_values(url: URL) -> list[str]:
    found: list[str] = []
    for key, value in url.query.items():
        if key.endswith(_SECRET):
            found += [value] if isinstance(value, str) else value
    return found
