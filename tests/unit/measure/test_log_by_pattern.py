"""Records that a user's patterns read: over several lines, and beside evaluations."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from pytest_dlperf.cli import extract as command
from pytest_dlperf.measure.logs.extract import LogResult
from tests.helpers.extracted import extracted
from tests.unit.measure.test_log_scale import codes, message, read

OVER_LINES = "[step={i}/2500,epoch=0]\n  loss=2.5\n  throughput/tokens_per_second={rate}\n"


@pytest.mark.parametrize(
    "regexes",
    [
        (r"step=(?P<step>\d+)/", r"per_second=(?P<rate>[\d,]+)"),
        (r"step=(?P<step>\d+)/|per_second=(?P<rate>[\d,]+)",),
        (r"per_second=(?P<rate>\S+)", r"loss=(?P<loss>\S+)", r"step=(?P<step>\d+)/"),
    ],
)
def test_a_record_over_several_lines_is_read_by_several_patterns(
    tmp_path: Path, regexes: tuple[str, ...]
) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        "".join(OVER_LINES.format(i=i, rate="47,941") for i in range(10, 1000, 10)),
        encoding="utf-8",
    )

    result = extracted(path, *(f"--pattern={regex}" for regex in regexes), "--unit=tokens")

    assert result.throughput == pytest.approx(47941)
    assert result.iterations == 990 - 50


def test_a_rate_before_the_first_step_belongs_to_none(tmp_path: Path) -> None:
    text = "speed 99 it/s\n" + "".join(f"step {i}\nspeed 2 it/s\n" for i in range(1, 100))
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    options = [
        "--pattern",
        r"step (?P<step>\d+)",
        "--pattern",
        r"speed (?P<rate>\S+) it",
        "--skip=0",
        "--unit=iterations",
    ]

    asked = command.parse_options(parser.parse_args(options))
    first, second = (read(tmp_path / name, text, fmt=asked.fmt, skip=0) for name in "ab")

    assert first.throughput == second.throughput == pytest.approx(2)


PLAIN = r"step (?P<step>\d+) \| (?P<rate>[\d.]+)"


def by_pattern(path: Path, text: str, regex: str) -> LogResult:
    path.write_text(text, encoding="utf-8")
    return extracted(path, f"--pattern={regex}")


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("word", ["eval ", "[Validation] ", "Test: ", '{"mode": "val"} '])
def test_lines_of_an_evaluation_are_no_records_of_a_pattern(
    tmp_path: Path, word: str, is_first: bool, every: int
) -> None:
    text = ""
    for i in range(200):
        both = [f"train step {i} | 100.0 samples/s\n"]
        if i % every == 0:
            both.insert(0 if is_first else 1, f"{word}step {i} | 300.0 samples/s\n")
        text += "".join(both)

    result = by_pattern(tmp_path / "train.log", text, PLAIN)

    assert result.throughput == pytest.approx(100)
    assert "duplicate-ranks" not in codes(result)


@pytest.mark.parametrize(
    "head",
    [
        "train (eval 20) ",
        "val_loss 2.1 | val loss 2.2 | ",
        "val: 2.1, ",
        "runs/eval/a.log ",
        "eval_steps=100 ",
    ],
)
def test_words_beside_an_evaluation_leave_a_record(tmp_path: Path, head: str) -> None:
    text = "".join(f"{head}step {i} | 100.0 samples/s\n" for i in range(200))

    assert by_pattern(tmp_path / "train.log", text, PLAIN).throughput == pytest.approx(100)


def test_a_pattern_that_names_an_evaluation_reads_it(tmp_path: Path) -> None:
    text = "".join(f"eval step {i} | 300.0 samples/s\n" for i in range(200))

    result = by_pattern(tmp_path / "train.log", text, "eval " + PLAIN)

    assert result.throughput == pytest.approx(300)


@pytest.mark.parametrize("count", [60, 1000])
@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize(
    ("speed", "regex"),
    [
        ("{rate} samples/s", PLAIN),
        ("{seconds} s", r"step (?P<step>\d+) \| (?P<seconds>[\d.]+)"),
    ],
)
def test_unlike_lines_of_a_step_are_not_averaged(
    tmp_path: Path, speed: str, regex: str, every: int, count: int
) -> None:
    text = ""
    for i in range(10, 10 * count, 10):
        text += f"step {i} | {speed.format(rate=100.0, seconds=0.9)}\n"
        if i // 10 % every == 0:
            text += f"B step {i} | {speed.format(rate=300.0, seconds=0.3)}\n"
    path = tmp_path / "train.log"
    path.write_text(text, encoding="utf-8")

    result = extracted(path, f"--pattern={regex}", "--batch-size=8", "--world-size=1")

    assert result.throughput is None
    assert "several lines of a step" in message(result, "unknown-format")


def test_ranks_with_a_slow_step_now_and_then_are_taken_for_one(tmp_path: Path) -> None:
    text = "".join(
        f"step {i} | {40.0 if rank == 3 and i % 50 == 0 else 100.0} samples/s\n"
        for i in range(400)
        for rank in range(4)
    )

    assert by_pattern(tmp_path / "train.log", text, PLAIN).throughput is not None
