"""Marks of thousands that are no comma: a number is read whole, or not at all."""

from __future__ import annotations

import io

import pytest

from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.grouped_digits import number_of
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.problems import with_remedy
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern

MARKS = (" ", "_", "'", "\u2019", "\u00a0", "\u202f", "\u2009", "\u2007")


def read(text: str, *regexes: str, encoding: str = "utf-8") -> LogResult:
    fmt = format_of_pattern(pattern(*regexes)) if regexes else None
    stream = io.BytesIO(text.encode(encoding))
    return extract_stream(stream, "train.log", ParseOptions(fmt=fmt, world_size=1))


def grouped(number: int, mark: str) -> str:
    return f"{number:,}".replace(",", mark)


def lines(shape: str, mark: str, count: int = 300) -> str:
    numbers = [grouped(1_048_576 + 7 * i, mark) for i in range(count)]
    return "".join(shape.format(step=i, number=number) for i, number in enumerate(numbers))


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize(
    "shape",
    [
        "step: {step}  loss:  7.9  memory: 33.90GiB(42.8%)  tps: {number}  tflops: 181.20\n",
        "step {step:05d}/05000 (1.00%) | loss: 5.1 | tok/sec: {number} | mfu: 48\n",
        "[INFO] [timer.py:199:stop] epoch=0/micro_step={step}/global_step={step}, "
        "RunningAvgSamplesPerSec=31.2, CurrSamplesPerSec={number}, MemAllocated=1.0GB\n",
        "step {step} loss 2.0 {number} tokens/s\n",
        "step {step} loss 2.0 tokens/s: {number}\n",
        "step {step} loss 2.0 throughput: {number} tokens/s\n",
    ],
)
def test_a_known_line_gives_no_part_of_a_number(shape: str, mark: str) -> None:
    result = read(lines(shape, mark))

    assert result.throughput is None
    # A pattern that was shown would read a part of it.
    assert not any("--pattern='" in with_remedy(problem) for problem in result.problems)


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("group", [r"(?P<rate>[\d.,]+)", r"(?P<rate>\d+)"])
@pytest.mark.parametrize("end", ["", " images/s"])
def test_a_group_with_a_part_of_a_number_reads_none(group: str, mark: str, end: str) -> None:
    regex = rf"step (?P<step>\d+).*{'' if end else 'rate='}{group}{end}"

    result = read(lines(f"step {{step}} rate={{number}}{end}\n", mark), regex)

    assert result.throughput is None
    assert "all digits" in result.problems[-1].message


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        *((mark, "utf-8") for mark in MARKS),
        *((mark, "latin-1") for mark in MARKS if mark <= "\u00ff"),
    ],
)
@pytest.mark.parametrize("group", [r"(?P<rate>[^|]+)", r"(?P<rate>\d\D\d+\D\d+)"])
def test_a_group_with_the_marks_reads_the_number(group: str, mark: str, encoding: str) -> None:
    text = lines("step {step} rate={number} | loss 2.0\n", mark)

    result = read(
        text, rf"step (?P<step>\d+).*rate={group.replace('D', 'D{1,3}')}", encoding=encoding
    )

    assert result.throughput == pytest.approx(1_048_576 + 7 * 175, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"1 048 576", 1_048_576),
        (b"1 048,5", 1048.5),
        (b"1'048.25", 1048.25),
        (b"-12_345", -12_345),
        (b"1.048.576", 1_048_576),
        (b"1.048.576,5", 1_048_576.5),
        (b"1.048", 1.048),
        (b"1,048", 1048),
        (b"512, ", 512),
        (b"1 0485", None),
        (b"1'048_576", None),
        (b"10 48", None),
        (b"0 123", None),
        (b"500,0", None),
        (b"", None),
    ],
)
def test_what_a_text_is_as_a_number(text: bytes, number: float | None) -> None:
    assert number_of(text) == number


@pytest.mark.parametrize(
    ("regex", "line"),
    [
        (r"^(?P<step>\d+) (?P<loss>\S+) (?P<rate>\S+)$", "{step} 350 512"),
        (r"^(?P<step>\d+) \d+ (?P<rate>\S+)$", "{step} 350 512"),
        (r"^(?P<step>\d+)\s+\S+\s+(?P<rate>\S+) \d+$", "{step} 350 512 128"),
        (r"(?P<step>\d+) loss 2 .*rate (?P<rate>\S+)", "{step} loss 2 100 rate 512"),
    ],
)
def test_a_blank_may_be_between_two_numbers(regex: str, line: str) -> None:
    text = "".join(f"{line.format(step=i)}\n" for i in range(1, 300))

    assert read(text, regex).throughput == 512


@pytest.mark.parametrize(
    ("regex", "line"),
    [
        # What is before the group takes digits of the number.
        (r"step (?P<step>\d+) .*(?P<rate>[\d.]+) images/s", "step {step} loss 2 512.5 images/s"),
        (r"step (?P<step>\d+) .*(?P<rate>\d+) images/s", "step {step} loss 2 512 images/s"),
        (r"step (?P<step>\d+) .*(?P<rate>\d+) images/s", "step {step} loss 2 512.5 images/s"),
        (r"step.*(?P<step>\d+) loss.* (?P<rate>\d+) images/s", "step {step} loss 2 512 images/s"),
        # The group takes no decimals.
        (r"step (?P<step>\d+) .* time (?P<seconds>\d+)", "step {step} loss 2 time 1.9"),
    ],
)
def test_a_part_of_a_number_without_marks_is_no_number_either(regex: str, line: str) -> None:
    text = "".join(f"{line.format(step=i)}\n" for i in range(100, 400))

    assert read(text, regex).throughput is None


def test_two_groups_may_share_digits() -> None:
    text = "".join(f"at {i // 100}.{i % 100:02d}: 512 images/s\n" for i in range(100, 400))

    result = read(text, r"at (?P<epoch>\d+)\.(?P<step>\d+): (?P<rate>\d+) images/s")

    assert result.throughput == 512
