"""Which part of a step a GPU's idle time after a wait of the host belongs to."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.wire_profile import ProfiledWindow, ProfileRecord
from pytest_dlperf.judge.explain.operator_changes import WAITS, Profile

#: By their names in ``worker/step_parts.py``.
_AFTER_WAITS: Final = "after host waits"
_PYTHON: Final = "Python and launches"
#: A step waits more often than before from this difference on.
_MORE_WAITS: Final = 0.5


def with_idle_time(
    before: Sequence[Profile], now: Sequence[Profile], rank: int
) -> tuple[list[Profile], list[Profile]]:
    """Return the profiles with a GPU's idle time after waits as time of the waits, or of Python.

    The host's program is exposed then. If it waits more often than before, the waits are why; with
    equally many, what became longer is the program. What of the program was exposed before,
    without a wait, is no cost of them.
    """
    old, new = (
        statistics.fmean(_waits(profile, rank) for profile in profiles) if profiles else 0.0
        for profiles in (before, now)
    )
    exposed_s = None
    if before and new > old + _MORE_WAITS:
        windows = [window for profile in before for window in profile[rank]["windows"]]
        steps = sum(window["steps"] for window in windows)
        exposed_s = sum(window["parts"].get(_PYTHON, 0.0) for window in windows) / steps

    def settled(profiles: Sequence[Profile]) -> list[Profile]:
        return [{**one, rank: _settled(one[rank], exposed_s)} for one in profiles]

    return settled(before), settled(now)


def _settled(record: ProfileRecord, exposed_s: float | None) -> ProfileRecord:
    """Return a record in which idle time after waits is of another part.

    That is Python, and beyond ``exposed_s`` of Python a step, where given, host waits.
    """
    windows: list[ProfiledWindow] = []
    for window in record["windows"]:
        parts = dict(window["parts"])
        idle_s, python_s = parts.pop(_AFTER_WAITS, 0.0), parts.get(_PYTHON, 0.0)
        of_python_s = idle_s
        if exposed_s is not None:
            of_python_s = min(idle_s, max(0.0, exposed_s * window["steps"] - python_s))
        if of_python_s:
            parts[_PYTHON] = python_s + of_python_s
        if idle_s > of_python_s:
            parts[WAITS] = parts.get(WAITS, 0.0) + idle_s - of_python_s
        windows.append({**window, "parts": parts})
    return {**record, "windows": windows}


def _waits(profile: Profile, rank: int) -> float:
    """Return how often the host waits in a step."""
    return sum(one["calls"] for one in profile[rank]["operators"] if one["part"] == WAITS)
