"""Exceptions for the user: each message says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class DlperfError(Exception):
    """Base of every error that this package raises on purpose."""


class UsageError(DlperfError):
    """An option, a marker or a command line is invalid."""


class UnknownNameError(UsageError):
    """A name is unknown; keeps the parts of the message."""

    def __init__(self, kind: str, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(sorted(known))}")
        self.kind = kind
        self.name = name
        self.known = known


class NotRunError(DlperfError):
    """A case is impossible here, for a reason known before anything starts (``not-run``)."""


class CaseError(DlperfError):
    """A case was asked for and could not be measured (verdict ``error``)."""


class BudgetSpentError(DlperfError):
    """No time was left to measure a case even once."""


class BaselineError(DlperfError):
    """A baseline file cannot be read, written, or is not what it claims to be."""


class UpdateRefusedError(DlperfError):
    """``--update-baselines`` or ``accept`` was refused; nothing was written."""


class HistoryError(DlperfError):
    """A history cannot be read or written, or is not what it claims to be."""


def lookup(kind: str, name: str, table: Mapping[str, T]) -> T:
    """Return ``table[name]``; raise ``UnknownNameError`` that lists what is known."""
    if name not in table:
        raise UnknownNameError(kind, name, tuple(table))
    return table[name]
