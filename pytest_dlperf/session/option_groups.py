"""Settings that depend on several options, or on an option and the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.arm import Arm, parse_arm
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.hosts import Host
from pytest_dlperf.core.place import NodePart, Place
from pytest_dlperf.core.scheduling import IN_JOB
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.launch.remote.transport import named_hosts
from pytest_dlperf.session.option_values import Get, Given
from pytest_dlperf.store.history.name import Database, check_file, database_of, is_url

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


def sinks(given: Given, get: Get) -> tuple[str, ...]:
    """Return the names of the sinks, each once, in their order; ``off`` clears those before."""
    # A job measures; the session that submitted it sends
    if get("scheduler") == IN_JOB:
        return ()
    found: list[str] = []
    for name in given("sink") or ():
        found = [] if name == _OFF else [*found, name]
    return tuple(dict.fromkeys(found))


def _check(text: str, folder: Path, named_by: str) -> None:
    database = database_of(text, what=named_by)
    if not is_url(text):
        check_file((folder / Path(text).expanduser()).absolute(), what=named_by)
    for name, extra in _MODULES[database]:
        if find_spec(name) is None:
            raise UsageError(
                f"{named_by}: {name} is not installed; pip install 'pytest-dlperf[{extra}]'"
            )


def protocol(given: Given) -> dict[str, Any]:
    """Return what is given of a protocol, by the names of its fields."""
    fields = {
        "iterations": "iterations",
        "warmup": "warmup",
        "runs": "runs",
        "max_runs": "max-runs",
        "timeout_s": "timeout",
    }
    values = {field: given(option) for field, option in fields.items()}
    return {field: value for field, value in values.items() if value is not None}


def rule(given: Given) -> Rule:
    """Return the rule of the verdicts."""
    values = {
        name.replace("-", "_"): given(name)
        for name in ("tolerance", "tolerance-max", "min-effect", "alpha", "family")
    }
    return Rule(**{field: value for field, value in values.items() if value is not None})


def place(get: Get, *, workdir: Path, rootdir: Path) -> Place:
    """Return where ranks start."""
    return Place.parse(
        prefix=get("prefix"),
        python=get("python"),
        own_python=sys.executable,
        folders={"workdir": str(workdir), "rootdir": str(rootdir)},
        node_part=NodePart.parse(get("node-rank"), get("master")),
    )


def data(get: Get, cwd: Path) -> str | None:
    """Return the folder of real data: of this host in full, of another as it was written."""
    text: str | None = get("data")
    behind = get("prefix")
    return text if text is None or behind else str((cwd / Path(text).expanduser()).resolve())


def from_logs(get: Get, cwd: Path) -> Path | None:
    """Return the folder of logs to judge in place of training."""
    if get("from-logs") is None:
        return None
    folder: Path = cwd / get("from-logs")
    if not folder.is_dir():
        raise UsageError(f"--dlperf-from-logs={folder} is not a directory")
    return folder


def pairs(given: Given, get: Get) -> str:
    """Return how pairs are measured; empty for lock-step where it fits.

    Raises ``UsageError`` where no pairs are asked for.
    """
    found: str | None = given("pairs")
    if found and get("against") is None:
        raise UsageError(
            f"--dlperf-pairs={found} is about the pairs of --dlperf-against; give that as well"
        )
    return found or ""


def against(get: Get) -> Arm | None:
    """Return the other arm of an interleaved A/B."""
    if get("against") is None:
        return None
    arm = parse_arm(get("against"), what="--dlperf-against")
    if get("prefix") and arm.kind in {"requirement", "interpreter"}:
        raise UsageError(
            f"--dlperf-against={arm.name}: the environment behind --dlperf-prefix cannot "
            "be changed from here; name a git ref or settings, or judge two images by stored "
            "baselines"
        )
    return arm


def hosts(get: Get, cwd: Path) -> tuple[Host, ...]:
    """Return the hosts that are named, none if there are none."""
    if get("hosts") is None:
        return ()
    return named_hosts(get("hosts"), cwd)
