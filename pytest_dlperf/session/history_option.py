"""Which history a session is added to: what the options say of it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.scheduling import IN_JOB
from pytest_dlperf.store.history.name import check_file, database_of, is_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_dlperf.store.history.name import Database

_OFF: Final = "off"
#: The modules that reach each database, and the extra with each.
_MODULES: Final[dict[Database, tuple[tuple[str, str], ...]]] = {
    "sqlite": (("sqlalchemy", "history"),),
    "postgresql": (("sqlalchemy", "postgresql"), ("psycopg", "postgresql")),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryWish:
    """The history of a session."""

    #: A file or a URL, which may hold a password; empty: the file of the working folder.
    text: str
    #: Where relative files are.
    folder: Path
    #: What named it: ``--dlperf-history`` ...; empty if nothing did.
    named_by: str


def history_wish(
    get: Callable[[str], Any],
    getini: Callable[[str], Any],
    *,
    cwd: Path,
    root: Path,
    environ: Mapping[str, str],
) -> HistoryWish | None:
    """Return what was said of the history, None where nothing is to be added to one.

    The arguments are those of ``Settings.from_options``. Raises ``UsageError`` where it was named
    and cannot be: what it needs is not installed.
    """
    # A job measures; the session that submitted it has the history
    if get("scheduler") == IN_JOB:
        return None
    for text, folder, named_by in (
        (get("history"), cwd, "--dlperf-history"),
        (environ.get("DLPERF_HISTORY"), cwd, "DLPERF_HISTORY"),
        (getini("dlperf_history"), root, "ini dlperf_history"),
    ):
        if text == _OFF:
            return None
        if text:
            _check(text, folder, named_by)
            return HistoryWish(text=text, folder=folder, named_by=named_by)
    if find_spec("sqlalchemy") is None:
        return None
    return HistoryWish(text="", folder=cwd, named_by="")


def _check(text: str, folder: Path, named_by: str) -> None:
    database = database_of(text, what=named_by)
    if not is_url(text):
        check_file((folder / Path(text).expanduser()).absolute(), what=named_by)
    for name, extra in _MODULES[database]:
        if find_spec(name) is None:
            raise UsageError(
                f"{named_by}: {name} is not installed; pip install 'pytest-dlperf[{extra}]'"
            )
