"""The folder of a session, in which each of its processes keeps what its ranks inherit.

That is variables and the working folder, as digests: the values may be secrets.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_dlperf.core.wire import CPU_VARIABLES, LIBRARY_VARIABLES
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.store.history.session_runs import make_session_folder

_FILE: Final = "inherited-{}.json"
#: Of pytest and of pytest-xdist: no two processes have the same.
_OF_PYTEST: Final = "PYTEST_"
#: Processes of one session collect at the same time; one that takes longer is not waited for.
_WAIT_S: Final = 60.0
#: Variables that a sentence names; the others it counts.
_NAMED: Final = 5


def folder_of(config: pytest.Config, settings: Settings, name: str) -> tuple[Path, Any]:
    """Return the folder, the same in all xdist workers of a session, and what keeps it.

    ``name`` is its name in the process that started the workers, where no rank starts; else
    empty. Making it drops the oldest. Raises ``pytest.UsageError`` if it cannot be made.
    """
    worker = getattr(config, "workerinput", {})
    base = settings.workdir
    if settings.runs_nothing:
        return base / "session", None
    own = f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"
    try:
        folder, lock = make_session_folder(base, name or str(worker.get("testrunuid", own)))
        if not name:
            keep_inherited(folder, str(worker.get("workerid", "main")))
        return folder, lock
    except OSError as error:
        raise pytest.UsageError(
            f"pytest-dlperf: cannot write logs to {base}: {error.strerror}; name another folder "
            "with --dlperf-workdir"
        ) from error


def inherited() -> dict[str, str]:
    """Return the variables, and under an empty name the working folder."""
    kept = {name: v for name, v in os.environ.items() if not name.startswith(_OF_PYTEST)}
    return {**kept, "": os.getcwd()}


def changed(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the names of what is not as ``before``; empty where all is."""
    found = (name for name in {*before, *now} if before.get(name) != now.get(name))
    names = [name or "the working folder" for name in sorted(found, key=lambda n: (not n, n))]
    if len(names) > _NAMED:
        names[_NAMED:] = [f"{len(names) - _NAMED} others"]
    return " and ".join(filter(None, (", ".join(names[:-1]), "".join(names[-1:]))))


def keep_inherited(folder: Path, process: str) -> None:
    """Keep what ranks of ``process`` inherit in the session's ``folder``."""
    path = folder / _FILE.format(process)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(_digests()), encoding="utf-8")
    temporary.replace(path)


def differs_among(folder: Path, processes: int) -> str:
    """Return the names of what differs between so many ``processes``; empty where nothing does.

    Waits until each has kept what it inherits, a minute at most.
    """
    end_s = time.monotonic() + _WAIT_S
    while len(found := _kept(folder)) < processes:
        if time.monotonic() > end_s:
            return "whether they have started"
        time.sleep(0.02)
    return " and ".join(dict.fromkeys(filter(None, (changed(found[0], one) for one in found))))


def changed_for_training(folder: Path) -> str:
    """Return the names of variables of libraries that changed since the session of ``folder``."""
    kept, now = _kept(folder), _for_training(_digests())
    differences = (changed(_for_training(one), now) for one in kept)
    return " and ".join(dict.fromkeys(filter(None, differences)))


def _for_training(digests: Mapping[str, str]) -> dict[str, str]:
    prefixes = (*LIBRARY_VARIABLES, *CPU_VARIABLES)
    return {name: digest for name, digest in digests.items() if name.startswith(prefixes)}


def _digests() -> dict[str, str]:
    return {
        name: hashlib.sha256(value.encode(errors="surrogateescape")).hexdigest()[:16]
        for name, value in inherited().items()
    }


def _kept(folder: Path) -> list[dict[str, str]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob(_FILE.format("*")))]
