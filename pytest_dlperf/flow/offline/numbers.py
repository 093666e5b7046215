"""Plain numbers as a side of ``dlperf judge``: sessions of runs, in a JSON file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.judge.numbers import Numbers

if TYPE_CHECKING:
    from pathlib import Path


def numbers_of(values: dict[str, Any], path: Path) -> Numbers:
    """Return the numbers of ``{"unit": "samples/s", "sessions": [{"runs": [512.1, …]}, …]}``.

    Raises ``UsageError`` that names the field for anything else; rates that can be none are left
    to the judge.
    """
    unit, sessions = values.get("unit", ""), values["sessions"]
    if not isinstance(unit, str):
        raise UsageError(f"{path}: unit: {unit!r} is no text, such as samples/s")
    if not isinstance(sessions, list) or not sessions:
        raise UsageError(f"{path}: sessions: not a list with a session in it")
    return Numbers(
        name=path.name,
        unit=unit,
        sessions=tuple(
            _runs(one, unit, f"{path}: sessions[{i}]") for i, one in enumerate(sessions)
        ),
    )


def _runs(session: Any, unit: str, where: str) -> tuple[float, ...]:
    runs = session.get("runs") if isinstance(session, dict) else None
    if not isinstance(runs, list) or not runs:
        raise UsageError(f"{where}.runs: not a list with a rate in it")
    own = session.get("unit", unit)
    if own != unit:
        raise UsageError(
            f"{where}.unit: {own!r}, but the file counts {unit!r}; bring all sessions to one unit"
        )
    for i, rate in enumerate(runs):
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            raise UsageError(f"{where}.runs[{i}]: {rate!r} is no number")
    return tuple(_float(rate) for rate in runs)


def _float(rate: float) -> float:
    try:
        return float(rate)
    except OverflowError:
        return float("inf")  # a whole number of 400 digits
