"""The moving line has the rate that will be measured."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.measure.summary import summarise
from pytest_dlperf.session.terminal import progress
from tests.helpers.record_files import case, rank_records, write


class Terminal:
    """A terminal that keeps what is written on its moving line."""

    isatty = True

    def __init__(self) -> None:
        self.lines: list[str] = []
        writer = SimpleNamespace(fullwidth=200)
        self.config = SimpleNamespace(get_terminal_writer=lambda: writer)

    def rewrite(self, text: str, *, erase: bool) -> None:
        self.lines.append(text)

    def ensure_newline(self) -> None:
        pass

    def flush(self) -> None:
        pass


def test_the_rate_is_by_the_work_that_ranks_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    plugins = {"terminalreporter": terminal}
    config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=plugins.get))
    clock = iter(range(1, 100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(clock)))
    ranks = [rank_records(0), rank_records(1)]
    for record in ranks[0] + ranks[1]:
        if record["record"] == "span":
            record["work"] = 32.0  # the case says 4
    summary, _ = summarise(case(), write(tmp_path, ranks))
    live = progress.Live(config)

    def rate_of_a_run(number: int) -> str:
        live.run_starts(case(), number, 3)
        for done in (2, 4):  # two iterations in a second of the clock
            for rank in range(2):
                state = struct.pack("<qd", done, 1.0)
                (tmp_path / f"rank{rank:05d}.progress").write_bytes(state)
            live.tick(case(), tmp_path)
        return terminal.lines[-1]

    assert " 2.000 iterations/s" in rate_of_a_run(1)
    live.run_ended(case(), summary)
    assert " 128.0 samples/s" in rate_of_a_run(2)


def test_where_no_line_moves_a_trace_is_told_of_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    terminal.isatty = False
    plugins = {"terminalreporter": terminal}
    config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=plugins.get))
    told: list[str] = []
    monkeypatch.setattr(progress, "write_line", lambda _, text: told.append(text))
    live = progress.Live(config)
    for second, words in enumerate(
        ["starting", *[f"step 1 of 2, {n} operators" for n in range(25)]]
    ):
        monkeypatch.setattr(progress.time, "monotonic", lambda second=second: float(second))
        live.traces(case(), 1, 2, words)
    assert told == [
        f"dlperf: {case().id}: trace 1 of 2: step 1 of 2, {n} operators" for n in (9, 19)
    ]
