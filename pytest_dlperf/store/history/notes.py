"""Small files of the work folder: when a case was certified last, and how long its runs take."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import DlperfError, UsageError
from pytest_dlperf.core.id_words import CaseId
from pytest_dlperf.core.replaced_file import replace_file
from pytest_dlperf.store.lock_beside import locked


def read(path: Path) -> Mapping[str, Any]:
    """Return what was noted; nothing where there is no file, or one that cannot be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}


def note(path: Path, name: str, value: str | float) -> None:
    """Note ``value``; raise ``DlperfError`` if that cannot be written."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(path):
            text = json.dumps({**read(path), name: value}, indent=1, sort_keys=True)
            # Case ids and times are nobody else's, in a folder that may be open to all
            replace_file(path, f"{text}\n".encode(), mode=0o600)
    except OSError as error:
        raise DlperfError(f"{path}: cannot be written ({error.strerror})") from error


_CERTIFICATES: Final = "certificates.json"


def read_certificates(workdir: Path) -> Mapping[str, str]:
    """Return the time (ISO 8601, UTC) of the last certificate of each case id.

    Nothing where there is no file, or one that cannot be read: it only sets the order.
    """
    values = read(workdir / _CERTIFICATES)
    return {key: value for key, value in values.items() if isinstance(value, str)}


def note_certificate(workdir: Path, case_id: str, time: str) -> None:
    """Remember that a case was certified; raise ``DlperfError`` if that cannot be written."""
    note(workdir / _CERTIFICATES, case_id, time)


_RUN_TIMES: Final = "run_times.json"


def read_run_times(workdir: Path) -> Mapping[str, float]:
    """Return the seconds of a run by ``run_key``; nothing without a file that can be read."""
    values = read(workdir / _RUN_TIMES)
    return {
        key: float(value)
        for key, value in values.items()
        if isinstance(value, int | float) and math.isfinite(value) and value > 0
    }


def run_key(case: Case, machine_class: str, *, in_pair: bool = False) -> str:
    """Return what a run's time depends on most: case, iterations, hardware; whether in a pair."""
    return f"{machine_class} {case.id} {_iterations(case, in_pair=in_pair)}"


def _iterations(case: Case, *, in_pair: bool) -> str:
    return f"{case.protocol.asked_iterations}{' in-pair' if in_pair else ''}"


def run_times_of_others(
    times: Mapping[str, float], case: Case, machine_class: str, *, in_pair: bool = False
) -> list[tuple[CaseId, float]]:
    """Return the seconds of runs of other cases on the same hardware, of as many iterations."""
    run_times = []
    for name, seconds in times.items():
        hardware, _, rest = name.partition(" ")
        case_id, _, iterations = rest.partition(" ")
        if hardware != machine_class or iterations != _iterations(case, in_pair=in_pair):
            continue
        with contextlib.suppress(UsageError):  # a key that somebody else wrote
            run_times.append((CaseId.parse(case_id), seconds))
    return run_times


def note_run_time(
    workdir: Path, case: Case, machine_class: str, seconds: float, *, in_pair: bool = False
) -> None:
    """Remember how long a run took; raise ``DlperfError`` if that cannot be written."""
    key = run_key(case, machine_class, in_pair=in_pair)
    note(workdir / _RUN_TIMES, key, round(seconds, 3))
