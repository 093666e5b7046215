"""Which history a session is added to: what the options say of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.scheduling import IN_JOB

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_OFF: Final = "off"
#: Databases by the beginning of their URL: the module that reaches each, and the extra with it.
_MODULES: Final = {"sqlite": ("sqlalchemy", "history"), "postgresql": ("psycopg", "postgresql")}


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryWish:
    """The history of a session."""

    #: A file or a URL, which may hold a password; empty: the file of the working folder.
    text: str
    #: Where relative files are.
    folder: Path
    #: What named it: ``--dlperf-history`` ...; empty if nothing did.
    named_by: str


def history_wish(config: pytest.Config) -> HistoryWish | None:
    """Return what was said of the history, None where nothing is to be added to one.

    Raises ``UsageError`` where it was named and cannot be: what it needs is not installed.
    """
    here = config.invocation_params.dir
    # A job measures; the session that submitted it has the history
    if config.getoption("dlperf_scheduler") == IN_JOB:
        return None
    for text, folder, named_by in (
        (config.getoption("dlperf_history"), here, "--dlperf-history"),
        (os.environ.get("DLPERF_HISTORY"), here, "DLPERF_HISTORY"),
        (config.getini("dlperf_history"), config.rootpath, "ini dlperf_history"),
    ):
        if text == _OFF:
            return None
        if text:
            _check(text, named_by)
            return HistoryWish(text=text, folder=folder, named_by=named_by)
    if find_spec("sqlalchemy") is None:
        return None
    return HistoryWish(text="", folder=here, named_by="")


def _check(text: str, named_by: str) -> None:
    scheme = urlsplit(text).scheme.partition("+")[0] if "://" in text else "sqlite"
    if scheme not in _MODULES:
        raise UsageError(f"{named_by}: {scheme}:// is neither sqlite:// nor postgresql://")
    for name in ("sqlalchemy", _MODULES[scheme][0]):
        if find_spec(name) is None:
            extra = _MODULES[scheme][1]
            raise UsageError(
                f"{named_by}: {name} is not installed; pip install 'pytest-dlperf[{extra}]'"
            )
