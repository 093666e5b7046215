"""The folder of a session, in which each of its processes keeps what its ranks inherit.

That is variables, the working folder and the folder of data, as digests: values may be secrets.
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

from pytest_dlperf.core.wire import CPU_VARIABLES, INTERPRETER_VARIABLES, LIBRARY_VARIABLES
from pytest_dlperf.session.exits import usage_error
from pytest_dlperf.session.process import Process
from pytest_dlperf.session.settings import Settings
from pytest_dlperf.store.history.session_runs import make_session_folder

_FILE: Final = "inherited-{}.json"
#: What a later session must have as well, beside the variables of libraries.
_FOR_TRAINING: Final = (
    *LIBRARY_VARIABLES, *CPU_VARIABLES, *INTERPRETER_VARIABLES, "LD_LIBRARY_PATH", "PYTHON",
)  # fmt: skip
_DATA: Final = "--dlperf-data"
#: Of pytest and of pytest-xdist: no two processes have the same.
_OF_PYTEST: Final = "PYTEST_"
#: Processes of one session collect at the same time; one that takes longer is not waited for.
_WAIT_S: Final = 60.0
#: Variables that a sentence names; the others it counts.
_NAMED: Final = 5


def folder_of(settings: Settings, process: Process, name: str) -> tuple[Path, Any]:
    """Return the folder, the same in all xdist workers of a session, and what keeps it.

    ``name`` is its name in the process that started the workers, where no rank starts; else
    empty. Making it drops the oldest. Raises ``pytest.UsageError`` if it cannot be made.
    """
    base = settings.workdir
    if settings.runs_nothing:
        return base / "session", None
    own = f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}"
    try:
        folder, lock = make_session_folder(base, name or process.session_name or own)
        if not name:
            keep_inherited(folder, process.worker or "main", data=settings.data)
        return folder, lock
    except OSError as error:
        raise usage_error(
            f"cannot write logs to {base}: {error.strerror}; name another folder "
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


def keep_inherited(folder: Path, process: str, *, data: str | None) -> None:
    """Keep what ranks of ``process`` inherit, and read, in the session's ``folder``."""
    path = folder / _FILE.format(process)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(_digests(data)), encoding="utf-8")
    temporary.replace(path)


def digest_of_inherited() -> str:
    """Return one digest of all that ranks of this process inherit."""
    return _digest(repr(sorted(inherited().items())))


def differs_among(folder: Path, processes: int) -> str:
    """Return the names of what differs between so many ``processes``; empty where nothing does.

    Waits until each has kept what it inherits, a minute at most.
    """
    end_s = time.monotonic() + _WAIT_S
    while len(kept := _kept(folder)) < processes:
        if time.monotonic() > end_s:
            return "whether they have started"
        time.sleep(0.02)
    return " and ".join(
        dict.fromkeys(filter(None, (changed(kept[0], digests) for digests in kept)))
    )


def changed_for_training(folder: Path, *, data: str | None) -> str:
    """Return the names of what changed for a training since the session of ``folder``.

    That is variables of libraries and of Python, and the folder of ``data``. Raises ``OSError``
    or ``ValueError`` where what was kept cannot be read.
    """
    kept, now = _kept(folder), _for_training(_digests(data))
    if not kept:
        raise FileNotFoundError(f"{folder} does not have what its ranks inherited")
    differences = (changed(_for_training(one), now) for one in kept)
    return " and ".join(dict.fromkeys(filter(None, differences)))


def _for_training(digests: Mapping[str, str]) -> dict[str, str]:
    return {
        name: digest
        for name, digest in digests.items()
        if name == _DATA or name.startswith(_FOR_TRAINING)
    }


def _digests(data: str | None) -> dict[str, str]:
    found = inherited() if data is None else {**inherited(), _DATA: data}
    return {name: _digest(value) for name, value in found.items()}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]


def _kept(folder: Path) -> list[dict[str, str]]:
    return [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob(_FILE.format("*")))]
