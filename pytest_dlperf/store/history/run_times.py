"""How long a run of each case took here; used to estimate a session."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_dlperf.core.case import Case, CaseId
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.store.history import notes

_FILE: Final = "run_times.json"


def read(workdir: Path) -> Mapping[str, float]:
    """Return the seconds of a run by ``key``; nothing where there is no file that can be read."""
    values = notes.read(workdir / _FILE)
    return {
        key: float(value)
        for key, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value) and value > 0
    }


def key(case: Case, machine_class: str) -> str:
    """Return what a run's time depends on most: case, iterations, hardware."""
    return f"{machine_class} {case.id} {case.protocol.iterations}"


def of_others(
    times: Mapping[str, float], case: Case, machine_class: str
) -> list[tuple[CaseId, float]]:
    """Return the seconds of runs of other cases on the same hardware, of as many iterations."""
    found = []
    for name, seconds in times.items():
        hardware, _, rest = name.partition(" ")
        case_id, _, iterations = rest.partition(" ")
        if hardware != machine_class or iterations != str(case.protocol.iterations):
            continue
        with contextlib.suppress(UsageError):  # a key that somebody else wrote
            found.append((CaseId.parse(case_id), seconds))
    return found


def note(workdir: Path, case: Case, machine_class: str, seconds: float) -> None:
    """Remember how long a run took; raise ``DlperfError`` if that cannot be written."""
    notes.note(workdir / _FILE, key(case, machine_class), round(seconds, 3))
