"""The one "unknown X; known: ..." message."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pytest_dlperf.core.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


def lookup(kind: str, name: str, table: Mapping[str, T]) -> T:
    """Return ``table[name]``; raise ``UnknownNameError`` that lists what is known."""
    if name not in table:
        raise UnknownNameError(kind, name, tuple(table))
    return table[name]
