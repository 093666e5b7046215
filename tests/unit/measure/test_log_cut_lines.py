"""Lines that hold a part of a record: a file that ends within one."""

from __future__ import annotations

import io

import pytest

from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.language_lines import composer, fairseq_bar
from tests.helpers.log_lines import (
    huggingface,
    lightning,
    lightning_rich,
    megatron,
    torchtitan,
    tqdm,
)
from tests.helpers.log_writer import BATCH, Writer, log
from tests.helpers.vision_lines import keras, ultralytics

pytestmark = pytest.mark.once


def read(text: str, block: int = 1 << 20) -> LogResult:
    asked = ParseOptions(world_size=1, batch_size_per_device=BATCH)
    return extract_stream(io.BytesIO(text.encode()), "train.log", asked, block)


def messages(result: LogResult, code: str) -> list[str]:
    return [problem.message for problem in result.problems if problem.code == code]


@pytest.mark.parametrize("writer", [torchtitan, megatron, composer])
@pytest.mark.parametrize("block", [2000, 1 << 20])
def test_a_file_may_end_at_any_byte(writer: Writer, block: int) -> None:
    text = log(writer, iterations=80, seconds=0.5)

    for size in range(len(text) - 130, len(text), 9):
        result = read(text[:size], block)

        assert result.throughput == pytest.approx(2 * BATCH, rel=2e-3), text[size - 20 : size]
        assert not messages(result, "unstable")


@pytest.mark.parametrize(
    "writer", [huggingface, lightning, lightning_rich, tqdm, ultralytics, keras, fairseq_bar]
)
@pytest.mark.parametrize("ends", ["\n", "\r"])
def test_a_bar_may_be_broken_off_at_any_byte(writer: Writer, ends: str) -> None:
    """Its program was killed, or still runs: the states before suffice."""
    text = log(writer, iterations=150, seconds=0.5).replace("\n", ends)

    for size in range(len(text) - 200, len(text), 7):
        result = read(text[:size])

        assert result.throughput == pytest.approx(2 * BATCH, rel=0.05), text[size - 20 : size]


def test_a_record_that_the_end_cuts_is_named() -> None:
    text = log(torchtitan, iterations=80)

    assert "ends within a line" in messages(read(text[:-3]), "truncated")[0]
    # It has all of its numbers.
    assert read(text[:-1]).to_json() == read(text).to_json()
    assert not messages(read(text), "truncated")


@pytest.mark.parametrize("digits", ["1", "16", "1,", "16,3", ""])
def test_a_line_of_torchtitan_that_ends_in_its_rate_is_no_record(digits: str) -> None:
    lines = log(torchtitan, iterations=200).splitlines(keepends=True)
    lines[100] = f"{lines[100].partition('tps: ')[0]}tps: {digits}\n"

    result = read("".join(lines))

    assert result.throughput == pytest.approx(2 * BATCH)
    assert not messages(result, "unstable")


def test_a_last_word_without_an_end_is_still_heard() -> None:
    text = log(torchtitan, iterations=80) + "Traceback (most recent call last):"

    assert "Traceback" in messages(read(text), "truncated")[0]


@pytest.mark.parametrize(
    "words",
    [
        "slurmstepd: error: *** JOB 1 CANCELLED DUE TO PREEMPTION ***",
        "slurmstepd: error: *** JOB 1 CANCELLED AT 2025-03-04T10:00:00 DUE TO TIME LIMIT ***",
        "[default] Worker group FAILED. 3/3 attempts left; will restart worker group",
        "INFO Resuming from checkpoint step-100",
    ],
)
@pytest.mark.parametrize("block", [2000, 1 << 20])
def test_a_run_that_goes_on_at_the_next_step_is_another(words: str, block: int) -> None:
    lines = log(torchtitan, iterations=200).splitlines(keepends=True)

    # The first run may have begun in the same words.
    result = read("".join([f"{words}\n", *lines[:100], f"{words}\n", *lines[100:]]), block)

    assert result.throughput is None
    assert "between its steps" in messages(result, "several-runs")[0]


@pytest.mark.parametrize("place", [0, 195, 200])
def test_words_of_a_break_before_the_first_step_or_after_the_last_change_nothing(
    place: int,
) -> None:
    lines = log(torchtitan, iterations=200).splitlines(keepends=True)
    words = "slurmstepd: error: *** JOB 1 CANCELLED DUE TO PREEMPTION ***\n"

    result = read("".join([*lines[:place], words, *lines[place:]]))

    assert result.throughput == pytest.approx(2 * BATCH)


@pytest.mark.parametrize("begin", ["", "[rank0]:", "2025-03-04 10:00:00 INFO "])
@pytest.mark.parametrize("cut", ["tps: 1", "tp", "memory: 3"])
@pytest.mark.parametrize("count", [1, 40])
def test_a_line_that_another_writer_goes_on_with_is_no_record(
    begin: str, cut: str, count: int
) -> None:
    lines = [f"{begin}{line}" for line in log(torchtitan, iterations=200).splitlines()]
    glued = [
        f"{line[: line.index(cut[:2])]}{cut}{lines[100 + i]}\n"
        for i, line in enumerate(lines[100 - count : 100])
    ]

    result = read("\n".join(lines[: 100 - count]) + "\n" + "".join(glued) + "\n".join(lines[100:]))

    assert result.throughput == pytest.approx(2 * BATCH)
    assert result.estimates is not None
    assert result.estimates.mean_of_rates == pytest.approx(2 * BATCH)
