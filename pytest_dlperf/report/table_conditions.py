"""What the cells of a table must share; a cell that differs says so in a footnote."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.measurement import Measurement

#: Fields of ``Conditions``, and how a footnote names them. Batch size and devices are the row.
_SHARED: Final = {
    "unit": "unit",
    "window": "measured iterations",
    "dtype": "dtype",
    "data": "data",
    "hardware": "hardware",
    "threads_per_rank": "threads per rank",
    "host_sharing": "host shared with others",
    "version": "version of the case",
}


def usual_conditions(measurements: Sequence[Measurement]) -> dict[str, Any]:
    """Return, for each shared condition, the value that most of ``measurements`` have.

    The first one's where as many have another. Empty if nothing was measured.
    """
    usual: dict[str, Any] = {}
    for name in _SHARED:
        counts = Counter(getattr(m.conditions, name) for m in measurements)
        if counts:
            usual[name] = counts.most_common(1)[0][0]
    return usual


def differences(measurement: Measurement, usual: dict[str, Any], compared: str) -> list[str]:
    """Return a footnote for every condition in which ``measurement`` is not as usual."""
    notes = []
    for name, words in _SHARED.items():
        mine = getattr(measurement.conditions, name)
        if name != compared and mine != usual[name]:
            notes.append(
                f"{words}: {_text(name, mine)} here, {_text(name, usual[name])} in the other "
                "cells of this table"
            )
    return notes


def _text(name: str, value: Any) -> str:
    if name == "unit":
        return f"{value}/s"
    if name == "window":
        first, end = value
        return f"{first} to {end}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
