"""What is right beside the number of a pattern's group: its rest, or another unit."""

from __future__ import annotations

import io
import re

import pytest

from pytest_dlperf.core.log_pattern import Scope, pattern
from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern


def read(
    shape: str,
    regex: str,
    unit: str = "",
    batch: int | None = None,
    *,
    world_size: int | None = 1,
    scope: Scope = "global",
) -> LogResult:
    text = "".join(shape.format(step=step) + "\n" for step in range(200))
    unit = unit or ("tokens" if re.search(r"tok|tgs|wps", shape) else "samples")
    options = ParseOptions(
        fmt=format_of_pattern(pattern(regex, unit=unit, scope=scope)),
        world_size=world_size,
        batch_size_per_device=batch,
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


#: A speed, the group that reads it, and why it is none of that group.
SPEEDS = [
    ("Ktok/s 12.3", "rate", "multiplies"),
    ("ktokens_per_sec: 12.3", "rate", "multiplies"),
    ("M tokens/s: 1.2", "rate", "multiplies"),
    ("million tokens/s = 1.2", "rate", "multiplies"),
    ("speed 1.2 B tokens/s", "rate", "multiplies"),
    ("speed 1.2 million tokens/s", "rate", "multiplies"),
    ("samples/h: 360000", "rate", "another time"),
    ("samples/h [avg]: 360000", "rate", "another time"),
    ("Ktok/s [global]: 12.3", "rate", "multiplies"),
    ("s/it <mean> = 2.5", "rate", "a time, and no rate"),
    ("samples_per_hour=360000", "rate", "another time"),
    ("tokens per minute: 5123", "rate", "another time"),
    ("img/min 5123", "rate", "another time"),
    ("speed 12.5 tokens/day", "rate", "another time"),
    ("speed 12.5 img per hour", "rate", "another time"),
    ("speed 2.50s/it", "rate", "a time, and no rate"),
    ("speed 2.50 s/step", "rate", "a time, and no rate"),
    ("speed 250.5 ms", "rate", "a time, and no rate"),
    ("s/it: 2.5", "rate", "a time, and no rate"),
    ("sec_per_step=2.5", "rate", "a time, and no rate"),
    ("took 2.50it/s", "seconds", "a rate, and no time"),
    ("took 64.5 samples/s", "seconds", "a rate, and no time"),
    ("it/s: 2.5", "seconds", "a rate, and no time"),
    ("samples_per_sec=2.5", "milliseconds", "a rate, and no time"),
    ("took 0.02 s/sample", "seconds", "something else"),
    ("took 2.5 ms/img", "milliseconds", "something else"),
    ("took 0.02 sec per token", "seconds", "something else"),
    ("took 5.0 s/10it", "seconds", "something else"),
    ("took 5.0 s / 100 steps", "seconds", "something else"),
    ("ms_per_token: 2.5", "milliseconds", "something else"),
    ("took 1m 5s", "seconds", "a clock or a duration"),
    ("took 1 min 5.2 s", "seconds", "a clock or a duration"),
    ("took 2h, 5s", "seconds", "a clock or a duration"),
    ("took 1.5m", "seconds", "a clock or a duration"),
    ("dur_ns 500500000", "milliseconds", "another one than that of the group"),
    ("time_ms 500.5", "seconds", "another one than that of the group"),
    ("took 500500 ns", "milliseconds", "another one than that of the group"),
]


@pytest.mark.parametrize(("speed", "group", "cause"), SPEEDS)
@pytest.mark.parametrize("behind", ["", " | loss 2.3", " loss"])
def test_a_line_that_contradicts_a_group_is_refused_with_the_cause(
    speed: str, group: str, cause: str, behind: str
):
    lazy = r"(?:\d+(?:h,|m(?:in)?| min)? )?" if group == "seconds" else ""
    regex = STEP + rf" [^\d]*?{lazy}(?P<{group}>\d[\d.]*)"

    result = read(f"step {{step}} {speed}{behind}", regex, batch=8)

    assert result.throughput is None
    (said,) = [each.message for each in result.problems if each.code == "insufficient-data"]
    assert f"{group} has no number" in said
    assert cause in said


@pytest.mark.parametrize(
    ("speed", "group", "expected"),
    [
        ("64 img 128.5 samples/s", "rate", 128.5),
        ("samples/s: 128.5 s/it: 2.0", "rate", 128.5),
        ("rate 128.5 time 0.5 s", "rate", 128.5),
        ("rate 128.5 ms 500", "rate", 128.5),
        ("throughput 128.5 min 120 max 130", "rate", 128.5),
        ("tokens_per_second: 128.5", "rate", 128.5),
        ("M: 128.5", "rate", 128.5),
        ("took 0.5 samples/s 16", "seconds", 16),
        ("took 0.5 it/s: 2", "seconds", 16),
        ("sec/it: 0.5", "seconds", 16),
        ("seconds_per_step=0.5", "seconds", 16),
        ("took 500 ms/step", "milliseconds", 16),
        ("lr 1e-5 took 0.5 s/batch", "seconds", 16),
    ],
)
def test_words_of_other_numbers_contradict_nothing(speed: str, group: str, expected: float):
    own = "0.5" if group == "seconds" else "500" if group == "milliseconds" else "128.5"
    regex = STEP + rf" .*?(?P<{group}>{own})(?![\d.])"

    result = read(f"step {{step}} {speed}", regex, batch=8)

    assert result.throughput == pytest.approx(expected)


@pytest.mark.parametrize(
    "speed",
    [
        "1285.5 tokens/s/GPU",
        "1285.5 tok/sec/device",
        "1285.5 tokens per second per GPU",
        "tokens_per_sec_per_gpu: 1285.5",
        "tokens/gpu/s = 1285.5",
        "tgs: 1285.5",
        "1285.5 samples/s/worker",
        "throughput/device: 1285.5",
        "local throughput: 1285.5",
        "local tokens/s: 1285.5",
        "node tokens/s 1285.5",
        "worker throughput = 1285.5",
        "per-GPU throughput: 1285.5",
        "tokens/s [per GPU]: 1285.5",
        "tokens/s (local): 1285.5",
        "tokens/s [local]: 1285.5",
        "1285.5 tokens/s (local)",
        "1285.5 tokens/s on this GPU",
        "1285.5 tok/s [node]",
    ],
)
def test_a_rate_of_a_device_is_not_that_of_all(speed: str):
    shape, regex = f"step {{step}} {speed} loss", STEP + r" [^\d]*(?P<rate>[\d.]+)"

    for world_size in (8, None):
        result = read(shape, regex, world_size=world_size)
        assert result.throughput is None
        (said,) = [each.message for each in result.problems if each.code == "unknown-scale"]
        assert "1285.5" in said
        assert "--scope=device" in said
    assert read(shape, regex).throughput == pytest.approx(1285.5)
    of_all = read(shape, regex, world_size=8, scope="device").throughput
    assert of_all == pytest.approx(8 * 1285.5)


@pytest.mark.parametrize(
    "speed",
    [
        "1285.5 tokens/s (8 GPUs)",
        "1285.5 tokens/s, 12 GB/GPU",
        "tokens/s [global]: 1285.5",
        "1285.5 tokens/s (all GPUs)",
        "tokens/s (all GPUs): 1285.5",
        "1285.5 tokens/s on 8 GPUs",
        "local_rank 0, tokens/s: 1285.5",
    ],
)
def test_devices_that_are_counted_beside_a_rate_contradict_nothing(speed: str):
    regex = STEP + r" .*?(?P<rate>1285[\d.]+)"

    assert read(f"step {{step}} {speed}", regex, world_size=8).throughput == pytest.approx(1285.5)


@pytest.mark.parametrize(
    ("line", "regex", "expected"),
    [
        ("{step},2.31,812,100", r"^(?P<step>\d+),[\d.]+,(?P<rate>\d+),", 812),
        ("{step},17,812,100", r"^(?P<step>\d+),\d+,(?P<rate>\d+),\d+$", 812),
        ("step {step} time -1 128.5 samples/s", STEP + r".* (?P<rate>-?[\d.]+) samples", 128.5),
        ("step {step} reward -12 128.5 samples/s", STEP + r".* (?P<rate>[\d.]+) samples", 128.5),
    ],
)
def test_numbers_of_their_own_beside_a_group_are_no_part_of_it(
    line: str, regex: str, expected: float
):
    assert read(line, regex, unit="samples").throughput == pytest.approx(expected)


def test_a_comma_that_the_pattern_does_not_read_on_both_sides_may_mark_thousands():
    regex = STEP + r" speed (?P<rate>\d+),"

    assert read("step {step} speed 812,100 tok/s", regex).throughput is None
