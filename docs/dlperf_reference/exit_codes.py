"""Exit codes of pytest and of ``dlperf``."""

from __future__ import annotations

from typing import Final

import pytest

from dlperf_reference.markdown import table
from pytest_dlperf.session.ending import SIGNALS

PYTEST: Final = {
    "OK": "nothing failed; verdicts that were not judged fail nothing without `--dlperf-strict`",
    "TESTS_FAILED": "a verdict failed a test; or perf cases were selected to run, and none "
    "was measured or judged; or another test failed; or `--dlperf-selftest` has no yes, or a no",
    "INTERRUPTED": "Ctrl-C; what ran was ended and its results were written",
    "INTERNAL_ERROR": "a report that was asked for could not be written, and the summary "
    "says which; or pytest itself failed",
    "USAGE_ERROR": "an option, ini key, variable or marker that cannot be meant",
    "NO_TESTS_COLLECTED": "no test was selected",
    "MAX_WARNINGS_ERROR": "more warnings than `--max-warnings` allows; newer pytest only",
}
SIGNAL: Final = (
    "{} while perf cases ran; what ran was ended, every report was written, and cases that were "
    "not reached are `not-run`"
)
DLPERF: Final = {
    0: "nothing failed",
    1: "a verdict failed, something was refused or is missing; the command's own page says what",
    2: "wrong usage, or input that cannot be read",
    3: "an error of `dlperf` itself, with its traceback",
}


def text() -> str:
    """Return a table of pytest's codes, which a CI sees, and one of ``dlperf``'s."""
    pytest_rows = [(str(int(code)), PYTEST[code.name]) for code in pytest.ExitCode]
    pytest_rows += [(str(128 + one), SIGNAL.format(one.name)) for one in sorted(SIGNALS)]
    head = ("code", "when")
    return (
        f"## pytest\n{table(head, pytest_rows)}\n"
        f"## dlperf\n{table(head, [(str(code), when) for code, when in DLPERF.items()])}"
    )
