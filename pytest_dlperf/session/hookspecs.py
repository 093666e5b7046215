"""Hooks that this plugin calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_dlperf.core.outcome import Outcome


def pytest_dlperf_outcome(outcome: Outcome) -> None:
    """Take a finished case, for instance into a warehouse of one's own.

    Called once a case, in the process that prints the summary::

        def pytest_dlperf_outcome(outcome):
            send(outcome.case.id, outcome.judgement.verdict.value)
    """
