"""What is right beside the number of a pattern's group: its rest, or another unit."""

from __future__ import annotations

import io

import pytest

from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern


def read(shape: str, regex: str, unit: str = "tokens", batch: int | None = None) -> LogResult:
    text = "".join(shape.format(step=step) + "\n" for step in range(200))
    options = ParseOptions(
        fmt=format_of_pattern(pattern(regex, unit=unit)), world_size=1, batch_size_per_device=batch
    )
    return extract_stream(io.BytesIO(text.encode()), "train.log", options)


STEP = r"step (?P<step>\d+)"


@pytest.mark.parametrize(
    "speed",
    [
        "12.3k tok/s",
        "12.3 k tok/s",
        "1.05Mtok/s",
        "1.23e+05 tok/s",
        "12.3K",
        "123 tok/min",
        "123 tokens per minute",
        "123 samples/hour",
    ],
)
def test_a_rate_is_read_with_what_multiplies_it_or_not_at_all(speed: str):
    result = read(f"step {{step}} | loss 2.3 | {speed}", STEP + r" .* (?P<rate>[\d.]+)")
    assert result.throughput is None
    assert result.problems


@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        ("12.3k tok/s", 12300),
        ("1.05M", 1.05e6),
        ("1.23e+05", 1.23e5),
        ("123 tok/s", 123),
        ("12 GB 123 tok/s", 123),
        ("123/s", 123),
    ],
)
def test_a_group_with_all_of_it_reads_the_number(speed: str, expected: float):
    result = read(f"step {{step}} | {speed}", STEP + r" \|.* (?P<rate>[\d.]+(?:[kM]|e\+05)?)")
    assert result.throughput == pytest.approx(expected)


@pytest.mark.parametrize("name", ["tok/s (k): ", "speed (x1000)="])
def test_a_name_that_multiplies_is_no_name_of_a_rate(name: str):
    result = read(f"step {{step}} {name}123.4", STEP + r".*[:=] ?(?P<rate>[\d.]+)")
    assert result.throughput is None


@pytest.mark.parametrize(
    ("group", "time"),
    [
        ("seconds", "took 500.0ms"),
        ("seconds", "took 500.0 ms"),
        ("seconds", "took 500 us"),
        ("seconds", "took 1.5 min"),
        ("seconds", "time_ms: 500"),
        ("seconds", "time (ms): 500"),
        ("seconds", "took 1:05"),
        ("milliseconds", "took 0.5 s"),
        ("milliseconds", "took 0.5s/it"),
        ("milliseconds", "time_us=500"),
    ],
)
def test_a_time_in_another_unit_is_none(group: str, time: str):
    regex = STEP + rf".* (?:took|time\S*|\(ms\):) ?\D*?(?P<{group}>[\d.]+)"
    if time.startswith("time_"):
        regex = STEP + rf".* time_\w+[:=] ?(?P<{group}>[\d.]+)"
    assert read(f"step {{step}} {time}", regex, batch=8).throughput is None


@pytest.mark.parametrize(
    ("group", "time", "expected"),
    [
        ("seconds", "took 0.5 s", 16),
        ("seconds", "took 0.5s/it", 16),
        ("seconds", "time_s: 0.5", 16),
        ("seconds", "took 0.5 max", 16),
        ("milliseconds", "took 500 ms", 16),
        ("milliseconds", "took 500ms.", 16),
    ],
)
def test_a_time_in_its_own_unit_is_read(group: str, time: str, expected: float):
    regex = STEP + rf" (?:took|time_s:) (?P<{group}>\d+(?:\.\d+)?)"
    assert read(f"step {{step}} {time}", regex, batch=8).throughput == pytest.approx(expected)


@pytest.mark.parametrize("step", ["1,{step:03d}", "{step}k", "{step}.0k", "{step}.5"])
def test_a_step_is_a_whole_number_or_none(step: str):
    result = read(f"step {step} loss 2.3 rate 7", STEP + r".* rate (?P<rate>\d+)")
    assert result.throughput is None


def test_another_number_behind_a_comma_is_of_its_own():
    result = read("{step},300,0.5", r"^(?P<step>\d+),(?P<rate>\d+),", unit="samples")
    assert result.throughput == pytest.approx(300)
