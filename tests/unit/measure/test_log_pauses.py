"""Evaluations and checkpoints that a log names between two prints, however often it prints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from pytest_dlperf.core.log_pattern import LogPattern, pattern
from pytest_dlperf.measure.logs.extract import LogResult
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern
from tests.helpers.log_lines import megatron, torchtitan
from tests.unit.measure.test_log_scale import codes, message, read

EACH_S: Final = 0.5
WORDS: Final = (
    "Running validation... val_loss 2.1",
    "eval metrics after step: 50, loss=2.3",
    "saved a checkpoint at iteration 50",
    "Step 00050 | Validation bpb: 0.9",
    "[eval] done",
)
#: What a print is of, where several iterations lie between two.
PATTERNS: Final[dict[str, LogPattern]] = {
    "iteration": pattern(r"step (?P<step>\d+) (?P<seconds>\S+) s", averaging="iteration"),
    "window": pattern(r"step (?P<step>\d+) (?P<seconds>\S+) s", averaging="window"),
    "unsaid": pattern(r"step (?P<step>\d+) (?P<seconds>\S+) s"),
    "elapsed": pattern(r"step (?P<step>\d+) .*at (?P<elapsed>\S+)"),
    "clock": pattern(r"step (?P<step>\d+)"),
}


def log(
    every: int, pause_s: float, words: str, *, of_window: bool, is_paused: Callable[[int], bool]
) -> str:
    """Return prints of 0.5 s an iteration, of which some have a pause in them."""
    lines, at_s = [], 0.0
    for i in range(every, 400 * every + 1, every):
        paused_s = pause_s if is_paused(i // every) else 0.0
        at_s += every * EACH_S + paused_s
        printed = EACH_S + (paused_s / every if of_window else paused_s)
        if is_paused(i // every):
            lines.append(words)
        time = datetime(2025, 3, 4) + timedelta(seconds=at_s)
        lines.append(f"{time:%Y-%m-%d %H:%M:%S.%f} step {i} {printed:.6f} s at {at_s:.3f}")
    return "\n".join(lines)


def by(tmp_path: Path, name: str, text: str) -> LogResult:
    fmt = format_of_pattern(PATTERNS[name])
    return read(tmp_path / "train.log", text, fmt=fmt, batch_size_per_device=64, world_size=1)


@pytest.mark.parametrize("pause_s", [1.0, 60.0])
@pytest.mark.parametrize("every", [1, 2, 10])
@pytest.mark.parametrize("name", PATTERNS)
def test_what_the_log_names_is_left_out_however_often_it_prints(
    tmp_path: Path, name: str, every: int, pause_s: float
) -> None:
    pause_s *= every
    text = log(
        every,
        pause_s,
        WORDS[0],
        of_window=name != "iteration",
        is_paused=lambda place: place % 25 == 1,
    )

    result = by(tmp_path, name, text)

    assert result.throughput == pytest.approx(64 / EACH_S, rel=1e-3)
    assert "and which were left out" in message(result, "left-out")


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("name", ["unsaid", "clock"])
def test_words_of_an_evaluation_or_a_checkpoint(tmp_path: Path, name: str, words: str) -> None:
    text = log(1, 20.0, words, of_window=True, is_paused=lambda place: place % 50 == 1)

    result = by(tmp_path, name, text)

    assert result.throughput == pytest.approx(64 / EACH_S, rel=1e-3)
    assert "with them the rate is" in message(result, "left-out")


@pytest.mark.parametrize("words", ["reward 3.1", "loading data/val/part-3", "eval_steps=50"])
def test_slow_iterations_without_such_words_count(tmp_path: Path, words: str) -> None:
    text = log(1, 20.0, words, of_window=True, is_paused=lambda place: place % 50 == 1)

    result = by(tmp_path, "unsaid", text)

    assert result.throughput == pytest.approx(64 * 350 / (350 * EACH_S + 7 * 20), rel=0.01)
    assert "left-out" not in codes(result)


def test_words_that_come_before_other_prints_leave_nothing_out(tmp_path: Path) -> None:
    text = log(1, 20.0, "reward 3.1", of_window=True, is_paused=lambda place: place % 50 == 1)
    lines = [
        f"{line}\nSaving checkpoint" if "step" in line and index % 50 == 20 else line
        for index, line in enumerate(text.split("\n"))
    ]

    result = by(tmp_path, "unsaid", "\n".join(lines))

    assert result.throughput == pytest.approx(64 * 350 / (350 * EACH_S + 7 * 20), rel=0.01)
    assert "left-out" not in codes(result)


def test_words_before_each_print_leave_nothing_out(tmp_path: Path) -> None:
    text = log(1, 20.0, "[eval] done", of_window=True, is_paused=lambda place: place % 50 == 1)
    text = text.replace("\n", "\n[eval] done\n")

    result = by(tmp_path, "unsaid", text)

    assert result.throughput == pytest.approx(64 * 350 / (350 * EACH_S + 7 * 20), rel=0.01)


def test_fast_prints_after_such_words_are_left_out_with_the_slow_ones(tmp_path: Path) -> None:
    """Else what is kept would be the fast ones of prints that vary."""
    text = log(1, 2.0, "reward 3.1", of_window=True, is_paused=lambda place: place % 2 == 0)
    lines = text.split("\n")
    marked = [
        f"Saving checkpoint\n{line}" if index % 30 < 4 and "step" in line else line
        for index, line in enumerate(lines)
    ]

    result = by(tmp_path, "unsaid", "\n".join(marked))

    assert result.throughput == pytest.approx(64 / (EACH_S + 1.0), rel=0.02)


@pytest.mark.parametrize("line", [megatron, torchtitan])
def test_built_in_formats_do_so_too(tmp_path: Path, line: Callable[[int, float], str]) -> None:
    def text(pause_s: float) -> str:
        return "\n".join(
            line(i, 0.5 + (pause_s if i % 50 == 1 else 0.0))
            + ("\nsaving checkpoint at iteration\n" if i % 50 == 0 else "")
            for i in range(300)
        )

    steady = read(tmp_path / "steady.log", text(0.0))
    paused = read(tmp_path / "paused.log", text(30.0))

    assert steady.throughput is not None
    assert paused.throughput == pytest.approx(steady.throughput, rel=0.01)
    assert "left-out" in codes(paused)
