"""The moving line has the rate that will be measured."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.measure.summary import summarise
from pytest_dlperf.report import figures
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


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the lines that are told."""
    lines: list[str] = []
    monkeypatch.setattr(progress, "write_line", lambda _, text: lines.append(text))
    return lines


def live_on(terminal: Terminal) -> progress.Live:
    plugins = {"terminalreporter": terminal}
    config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugin=plugins.get))
    return progress.Live(config)


def test_where_no_line_moves_a_trace_is_told_of_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    terminal = Terminal()
    terminal.isatty = False
    live = live_on(terminal)
    for second, words in enumerate(
        ["starting", *[f"step 1 of 2, {n} operators" for n in range(25)]]
    ):
        monkeypatch.setattr(progress.time, "monotonic", lambda second=second: float(second))
        live.traces(case(), 1, 2, words)
    assert told == [
        f"dlperf: {case().id}: trace 1 of 2: step 1 of 2, {n} operators" for n in (9, 19)
    ]


def test_the_two_launches_of_a_pair_have_a_rate_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    live = live_on(terminal)
    live.run_starts(case(), 1, 6)
    arms = tmp_path / "before", tmp_path / "now"
    for second in (1, 2):
        for number, arm in enumerate(arms):  # the second is ahead by an iteration, and looked at
            clock = second + number / 1000  # a millisecond later
            monkeypatch.setattr(progress.time, "monotonic", lambda clock=clock: clock)
            arm.mkdir(exist_ok=True)
            state = struct.pack("<qd", 10 * second + number, 1.0)
            (arm / "rank00000.progress").write_bytes(state)
            live.tick(case(), arm)
    assert all(" 10.00 iterations/s" in line for line in terminal.lines[-2:]), terminal.lines


def test_where_no_line_moves_a_run_is_told_of_every_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    terminal = Terminal()
    terminal.isatty = False
    live = live_on(terminal)
    for second in range(0, 190, 10):
        monkeypatch.setattr(progress.time, "monotonic", lambda second=second: float(second))
        if second == 0:
            live.run_starts(case(), 2, 6, "main")
        if second >= 60:
            state = struct.pack("<qd", second // 10, 1.0)
            (tmp_path / "rank00000.progress").write_bytes(state)
        live.tick(case(), tmp_path)
    start, count = f"{case().id} run 2/6 (main)", case().protocol.iterations
    left = [figures.duration(10 * (count - done)) for done in (12, 18)]
    assert told == [
        f"{start}: 1:00 so far, 6/{count}",
        f"{start}: 2:00 so far, 12/{count} 0.1000 iterations/s, {left[0]} left",
        f"{start}: 3:00 so far, 18/{count} 0.1000 iterations/s, {left[1]} left",
    ]


def test_where_no_line_moves_a_profile_is_told_of_at_its_begin_and_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    terminal = Terminal()
    terminal.isatty = False
    live = live_on(terminal)
    for second in range(26):
        monkeypatch.setattr(progress.time, "monotonic", lambda second=second: float(second))
        # As while a rank writes its profile: no iteration is done any more
        live.profiles(case(), 2, 4, "starting" if second == 0 else "12 iterations")
    start = f"dlperf: {case().id}: profile 2 of 4"
    assert told == [
        start,
        f"{start}: 0:10 so far, 12 iterations",
        f"{start}: 0:20 so far, 12 iterations",
    ]


def test_the_moving_line_says_that_it_is_a_profile(told: list[str]) -> None:
    terminal = Terminal()
    live = live_on(terminal)
    live.run_starts(case(), 6, 6)
    for words in ("starting", "3 iterations"):
        live.profiles(case(), 1, 4, words)
    assert [line.removeprefix(f"{case().id} ") for line in terminal.lines[-2:]] == [
        "profile 1/4 starting", "profile 1/4 0:00 so far, 3 iterations",
    ]  # fmt: skip
    assert told == []
