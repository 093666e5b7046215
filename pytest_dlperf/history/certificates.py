"""When each case was last certified here: what has gone longest without goes first."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import DlperfError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FILE: Final = "certificates.json"


def read(workdir: Path) -> Mapping[str, str]:
    """Return the time (ISO 8601, UTC) of the last certificate of each case id.

    Nothing where there is no file, or one that cannot be read: it only sets the order.
    """
    try:
        values = json.loads((workdir / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(values, dict):
        return {}
    return {key: value for key, value in values.items() if isinstance(value, str)}


def note(workdir: Path, case_id: str, time: str) -> None:
    """Remember that a case was certified; raise ``DlperfError`` if that cannot be written."""
    path = workdir / _FILE
    try:
        workdir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(workdir):
            values = {**read(workdir), case_id: time}
            temporary = workdir / f".{_FILE}.tmp"
            text = json.dumps(values, indent=1, sort_keys=True)
            temporary.write_text(f"{text}\n", encoding="utf-8")
            os.replace(temporary, path)
    except OSError as error:
        raise DlperfError(f"{path}: cannot be written ({error.strerror})") from error


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of the folder itself: no file is left behind."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
