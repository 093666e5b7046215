"""The files that a session makes of its outcomes."""

from __future__ import annotations

import contextlib
import importlib
import time
from typing import TYPE_CHECKING, Final

from pytest_dlperf.report import json_

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_dlperf.core.outcome import Outcome

#: What the summary calls each report, and the module whose ``render(outcomes)`` is its text, and
#: whose ``remark(outcomes)``, if it has one, says what is not in it; imported where it was asked
#: for.
_RENDERERS: Final = {
    "json": ("results", "pytest_dlperf.report.json_"),
    "html": ("page", "pytest_dlperf.report.page.session_page"),
    "md": ("comment", "pytest_dlperf.report.pull_request"),
    "benchmark-json": ("pytest-benchmark", "pytest_dlperf.report.benchmark_json"),
    "metrics": ("metrics", "pytest_dlperf.report.open_metrics"),
}


class SessionReports:
    """Writes the reports of one session, and tells of them in its summary."""

    def __init__(self) -> None:
        self._write_next_s = 0.0
        #: A line for each report that was asked for: where it lies, or why it does not.
        self.lines: list[str] = []

    def write_so_far(self, path: Path, outcomes: Sequence[Outcome]) -> None:
        """Write the results so far: the session may be killed before its end.

        Not so often that it would take more than a tenth of the time.
        """
        began_s = time.monotonic()
        if began_s < self._write_next_s:
            return
        # Where it cannot be written, the session's end says so.
        with contextlib.suppress(OSError):
            json_.write(path, outcomes)
        self._write_next_s = time.monotonic() + 10 * (time.monotonic() - began_s)

    def write(self, reports: Mapping[str, Path], outcomes: Sequence[Outcome]) -> bool:
        """Write ``reports``, paths by kind; return whether all of them could be."""
        whole = True
        for name, path in reports.items():
            title, module = _RENDERERS[name]
            renderer = importlib.import_module(module)
            text = renderer.render(outcomes)
            remark = renderer.remark(outcomes) if hasattr(renderer, "remark") else ""
            try:
                json_.write_text(path, text)
                self.lines.append(f"{title}: {path}" + (f" ({remark})" if remark else ""))
            except OSError as error:
                self.lines.append(f"{title} NOT written: {path}: {error.strerror}")
                whole = False
        return whole
