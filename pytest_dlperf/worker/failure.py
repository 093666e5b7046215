"""The exception of a check that failed in a rank."""

from __future__ import annotations


class WorkerFailure(Exception):
    """A check failed in this rank; ``code`` is stable, the message is for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
