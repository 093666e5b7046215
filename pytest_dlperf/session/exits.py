"""How text leaves a session for pytest's terminal: nothing of it steers the terminal, or a CI."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import pytest

from pytest_dlperf.report.printable import shown


def usage_error(what: object) -> pytest.UsageError:
    """Return the exception that ends a session as wrong usage."""
    return pytest.UsageError(shown(f"pytest-dlperf: {what}"))


def warn(what: object) -> None:
    """Let pytest list a warning at the session's end."""
    warnings.warn(shown(f"pytest-dlperf: {what}"), pytest.PytestWarning, stacklevel=2)


def write_line(reporter: Any, text: str, tail: str = "", colour: str = "") -> None:
    """Write a line on pytest's terminal, or on standard output where there is none.

    ``tail`` is its end, in a colour.
    """
    if reporter is None:  # -p no:terminal
        sys.stdout.write(f"{shown(text + tail)}\n")
        return
    reporter.ensure_newline()
    # Not write_line for the tail: it would end the line again
    reporter.write(shown(text))
    reporter.line(shown(tail), **{colour: True} if colour else {})
