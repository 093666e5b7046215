"""Clocks of lines that jump between two prints, where they alone say how long iterations took."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern
from tests.unit.measure.test_log_scale import codes, message, read

STAMPS: dict[str, Callable[[datetime], str]] = {
    "date": lambda time: f"{time:%Y-%m-%d %H:%M:%S}",
    "milliseconds": lambda time: f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d}",
    "unix": lambda time: f"{time.replace(tzinfo=timezone.utc).timestamp():.3f}",
}


def log(stamp: str, every: int, jump_s: float, words: str = "") -> str:
    """Return steps of 2 s with a jump of the clock behind the 300th."""
    lines = []
    for step in range(every, 501, every):
        time = datetime(2025, 3, 30, 1, 50) + timedelta(seconds=2 * step + jump_s * (step > 300))
        if words and step - every < 300 + every and step > 300:
            lines.append(words)
        lines.append(f"{STAMPS[stamp](time)} step {step} loss 2.0")
    return "\n".join(lines)


FORMAT = format_of_pattern(pattern(r"step (?P<step>\d+)"))


@pytest.mark.parametrize("stamp", STAMPS)
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("jump_s", [1200.0, 3600.0, 7200.0])
def test_a_jump_of_the_clock_gives_no_number(
    tmp_path: Path, stamp: str, every: int, jump_s: float
) -> None:
    text = log(stamp, every, jump_s)

    result = read(tmp_path / "train.log", text, fmt=FORMAT, in_iterations=True)

    assert result.throughput is None
    assert "of the time passed in" in message(result, "averages-differ")


@pytest.mark.parametrize("jump_s", [0.0, 20.0])
def test_a_short_wait_counts(tmp_path: Path, jump_s: float) -> None:
    text = log("date", 1, jump_s)

    result = read(tmp_path / "train.log", text, fmt=FORMAT, in_iterations=True)

    assert result.throughput == pytest.approx(450 / (900 + jump_s), rel=0.02)


def test_a_jump_that_words_explain_is_left_out(tmp_path: Path) -> None:
    text = log("date", 1, 7200.0, "Running validation...")

    result = read(tmp_path / "train.log", text, fmt=FORMAT, in_iterations=True)

    assert result.throughput == pytest.approx(0.5, rel=0.02)
    assert "left-out" in codes(result)
