"""Results that are written before a session's end: how often, by a clock of the test's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_dlperf.report import json_
from pytest_dlperf.session import report_files
from pytest_dlperf.session.report_files import ReportFiles


class Clock:
    """Seconds that pass only where the test, or a write, says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, write_s: float) -> None:
        self.now_s = 100.0
        #: When results were written, in seconds.
        self.written_at_s: list[float] = []
        # The module's own name alone: pytest goes on by the real clock
        monkeypatch.setattr(report_files, "time", SimpleNamespace(monotonic=lambda: self.now_s))

        def write(path: Path, outcomes: object) -> None:
            self.written_at_s.append(self.now_s)
            self.now_s += write_s

        monkeypatch.setattr(json_, "write", write)


def test_a_case_that_begins_right_after_a_slow_write_is_in_the_results(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    clock = Clock(monkeypatch, write_s=0.5)
    reports = ReportFiles()
    clock.now_s += 20
    reports.write_so_far(tmp_path / "r.json", [])
    reports.write_so_far(tmp_path / "r.json", [], is_begun=True)
    assert clock.written_at_s == [120.0, 120.5]


def test_writing_takes_a_tenth_of_a_session_at_most(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    clock = Clock(monkeypatch, write_s=0.5)
    reports = ReportFiles()
    for _ in range(100):
        clock.now_s += 0.1
        reports.write_so_far(tmp_path / "r.json", [])
    assert len(clock.written_at_s) == 3, "of 11.5 s, 1.5 s: the next would come after 15 s"


def test_what_becomes_of_a_case_that_has_begun_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    clock = Clock(monkeypatch, write_s=0.5)
    reports = ReportFiles()
    clock.now_s += 1
    reports.write_so_far(tmp_path / "r.json", [], is_begun=True)
    reports.write_so_far(tmp_path / "r.json", [])
    assert len(clock.written_at_s) == 2
