"""The files that a session makes of its outcomes: results, page, comment and others."""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.writable import unforeseen
from pytest_dlperf.report import json_
from pytest_dlperf.session.options import OPTIONS, ReportOption

_OPTIONS: Final = {option.name: option for option in OPTIONS if isinstance(option, ReportOption)}
#: The share of a session's time that results may take which are written before its end.
_WRITING_SHARE: Final = 0.1


class ReportFiles:
    """Writes the report files of a session, and lists them in its summary."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        #: Seconds that writing the results so far has taken.
        self._writing_s = 0.0
        self._has_begun = False
        #: A line for each report that was asked for: its path, or why it was not written.
        self.lines: list[str] = []

    def write_so_far(
        self, path: Path, outcomes: Sequence[Outcome], *, is_begun: bool = False
    ) -> None:
        """Write the results so far: the session may be killed before its end.

        Not so often that it would take more than a tenth of the session's time; but once they say
        of a case that it has begun (``is_begun``), what becomes of it is written too.
        """
        began_s = time.monotonic()
        is_too_often = self._writing_s > _WRITING_SHARE * (began_s - self._began_s)
        if is_too_often and (is_begun or not self._has_begun):
            return
        self._has_begun = is_begun
        # Whatever keeps it from being written, the session's end meets it too, and says so.
        with contextlib.suppress(Exception):
            json_.write(path, outcomes)
        self._writing_s += time.monotonic() - began_s

    def write(
        self,
        reports: Mapping[str, Path],
        outcomes: Sequence[Outcome],
        additions: Mapping[str, Sequence[Outcome]],
    ) -> bool:
        """Write ``reports``, paths by kind; return whether all of them could be.

        ``additions`` are outcomes that a report has as well, by its kind.
        """
        whole = True
        for name, path in reports.items():
            title = _OPTIONS[name].title
            # Imported here, where it was asked for.
            renderer = importlib.import_module(f"pytest_dlperf.report.{_OPTIONS[name].module}")
            rendered = [*outcomes, *additions.get(name, ())]
            try:
                text = renderer.render(rendered)
                remark = renderer.remark(rendered) if hasattr(renderer, "remark") else ""
                json_.write_text(path, text)
                self.lines.append(f"{title}: {path}" + (f" ({remark})" if remark else ""))
            except OSError as error:
                self.lines.append(f"{title} NOT written: {path}: {error.strerror}")
                whole = False
            except Exception as error:  # noqa: BLE001  # any: the other reports are written
                self.lines.append(f"{title} NOT written: {path}: {unforeseen(error)}")
                whole = False
        return whole
