"""The case of a pytest item: the parameter that our marker gives it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from pytest_dlperf.cases.selection import Selected

#: The marker, and the fixture that runs its case.
NAME: Final = "dlperf"


def selected_of(item: pytest.Item) -> Selected | None:
    """Return the case of a perf item; None for any other."""
    value = _parameters(item).get(NAME)
    return value if isinstance(value, Selected) else None


def has_case(item: pytest.Item) -> bool:
    """Return whether our marker has given an item its parameter."""
    return NAME in _parameters(item)


def set_selected(item: pytest.Item, selected: Selected) -> None:
    """Replace the case of a perf item."""
    _parameters(item)[NAME] = selected


def _parameters(item: pytest.Item) -> dict[str, Any]:
    callspec: Any = getattr(item, "callspec", None)
    parameters: dict[str, Any] = {} if callspec is None else callspec.params
    return parameters
