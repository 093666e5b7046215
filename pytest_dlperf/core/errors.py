"""Exceptions for the user: each message says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class DlperfError(Exception):
    """Base of every error that this package raises on purpose.

    It keeps the parts of its message, which is ``subject: cause; remedy``, and remarks below.
    """

    def __init__(
        self, text: str = "", *, subject: str = "", remedy: str = "", remarks: str = ""
    ) -> None:
        """``text`` is the cause; lines below its first are remarks, as ``remarks`` are.

        ``subject`` is what the message is about: the id of a case, or a file.
        """
        self.subject, self.remedy = subject, remedy
        self.cause, newline, below = text.partition("\n")
        self.remarks = f"{below}{newline and remarks and newline}{remarks}"
        super().__init__(self.words())

    @property
    def sentence(self) -> str:
        """The cause and the remedy."""
        return f"{self.cause}; {self.remedy}" if self.remedy else self.cause

    def first_line(self, *, below: str = "") -> str:
        """Return the message without its remarks.

        The subject is left out where the message stands ``below`` a heading that names it.
        """
        is_named = not self.subject or self.subject == below
        return self.sentence if is_named else f"{self.subject}: {self.sentence}"

    def words(self, *, below: str = "") -> str:
        """Return the whole message; without its subject where ``below`` names it."""
        return "\n".join(filter(None, (self.first_line(below=below), self.remarks)))


class UsageError(DlperfError):
    """An option, a marker or a command line is invalid."""


class UnknownNameError(UsageError):
    """A name is unknown; the message lists what is known."""

    def __init__(self, kind: str, name: str, choices: tuple[str, ...]) -> None:
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(sorted(choices))}")


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
