"""The address of a history: a file for SQLite, or the URL of a database."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.store.history.name import DRIVERS, check_file, database_of, is_url

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
    #: Whether a new file is made for its owner alone, as all others of a work folder.
    is_private: bool = False

    @property
    def name(self) -> str:
        """The name of its file or of its database, without a folder or a host."""
        return self.file.name if self.file is not None else self.url.database or ""

    def without_secrets(self, text: str) -> str:
        """Return ``text`` without the values that ``shown`` leaves out."""
        values = [self.url.password or "", *_secret_values(self.url)]
        for value in filter(None, values):
            text = text.replace(str(value), _MASK)
        return text


def parse_address(text: str, *, folder: Path, what: str) -> Address:
    """Return the address that ``text`` is; relative files are in ``folder``.

    ``what`` is the option, for ``UsageError``, which never quotes a URL.
    """
    database = database_of(text, what=what)
    if not is_url(text):
        return _checked(file_address(folder / Path(text).expanduser()), what)
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        # The error of the library quotes what it was given
        raise UsageError(
            f"{what}: not a URL that SQLAlchemy reads; give a file, or "
            "postgresql://user@host/database"
        ) from None
    if database == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UsageError(f"{what}: the URL names no file; give the path of one")
        if url.host or url.query:
            raise UsageError(f"{what}: a URL of SQLite is sqlite:///FILE, and nothing more here")
        return _checked(file_address(folder / url.database), what)
    if "@" in f"{url.host}{url.database}":
        # What stands before it may be the end of a password: quoted nowhere
        raise UsageError(
            f"{what}: the host or the database contains an @, maybe that of a password; write "
            "%40 for each @ in user and password"
        )
    # SQLAlchemy 2.0 would take psycopg2 for it
    url = url.set(drivername=f"{database}+{DRIVERS[database]}")
    return Address(url=url, shown=_shown(url), file=None)


def _checked(address: Address, what: str) -> Address:
    assert address.file is not None
    check_file(address.file, what=what)
    return address


def file_address(file: Path, *, is_private: bool = False) -> Address:
    """Return the address of a SQLite file; a private one is made for its owner alone."""
    whole = file.absolute()
    url = URL.create("sqlite", database=str(whole))
    return Address(url=url, shown=str(whole), file=whole, is_private=is_private)


def _shown(url: URL) -> str:
    masked = {key: _MASK for key in url.query if key.endswith(_SECRET)}
    plain = url.set(drivername="postgresql").update_query_dict(masked)
    shown: str = plain.render_as_string(hide_password=True).replace(quote(_MASK), _MASK)
    return shown


def _secret_values(url: URL) -> list[str]:
    secrets: list[str] = []
    for key, value in url.query.items():
        if key.endswith(_SECRET):
            secrets += [value] if isinstance(value, str) else value
    return secrets
