"""Time of each case's last passing verdict; used to run the stalest case first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pytest_dlperf.store.history import notes

_FILE: Final = "certificates.json"


def read(workdir: Path) -> Mapping[str, str]:
    """Return the time (ISO 8601, UTC) of the last certificate of each case id.

    Nothing where there is no file, or one that cannot be read: it only sets the order.
    """
    values = notes.read(workdir / _FILE)
    return {key: value for key, value in values.items() if isinstance(value, str)}


def note(workdir: Path, case_id: str, time: str) -> None:
    """Remember that a case was certified; raise ``DlperfError`` if that cannot be written."""
    notes.note(workdir / _FILE, case_id, time)
