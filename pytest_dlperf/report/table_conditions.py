"""What the cells of a table must share; a cell that differs says so in a footnote."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.outcome import Outcome

#: Fields of ``Conditions`` and of the software, and how a footnote names them. Batch size and
#: devices are the row; versions and images differ by framework, and stand with the environments.
_SHARED: Final = {
    "unit": "unit",
    "window": "measured iterations",
    "dtype": "dtype",
    "data": "data",
    "hardware": "hardware",
    "threads_per_rank": "threads per rank",
    "host_sharing": "host shared with others",
    "version": "version of the case",
    "driver": "driver",
}
#: Compared fields that a shared condition follows from: it need not be said again.
_FOLLOWS: Final = {
    "dtype": ("precision",),
    "hardware": ("machine_class", "gpu", "cpu"),
    "threads_per_rank": ("machine_class", "cpu", "hardware", "cores visible"),
}


def usual_conditions(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return, for each shared condition, the value that most of ``outcomes`` have.

    The first one's where as many have another. Empty if nothing was measured.
    """
    usual: dict[str, Any] = {}
    for name in _SHARED:
        counts = Counter(_value(outcome, name) for outcome in outcomes)
        if counts:
            usual[name] = counts.most_common(1)[0][0]
    return usual


def differences(outcome: Outcome, usual: dict[str, Any], compared: str) -> list[str]:
    """Return a footnote for every condition in which ``outcome`` is not as usual."""
    notes = []
    for name, words in _SHARED.items():
        mine = _value(outcome, name)
        expected = compared == name or compared in _FOLLOWS.get(name, ())
        if mine != usual[name] and not expected:
            notes.append(
                f"{words}: {_text(name, mine)} here, {_text(name, usual[name])} in the other "
                "cells of this table"
            )
    return notes


def _value(outcome: Outcome, name: str) -> Any:
    if name == "driver":
        return outcome.environment.software.get(name) if outcome.environment else None
    return getattr(outcome.measurement.conditions, name) if outcome.measurement else None


def _text(name: str, value: Any) -> str:
    if value is None:
        return "unknown"
    if name == "unit":
        return f"{value}/s"
    if name == "window":
        first, end = value
        return f"{first} to {end}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
