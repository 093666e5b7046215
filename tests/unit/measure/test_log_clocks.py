"""The clock of a log's lines: how it is written, and what it says alone."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.measure.logs.clocks import STYLES, Clock, stamp
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern
from tests.unit.measure.test_log_scale import codes, message, read

STEP = r"step (?P<step>\d+)"


SIZES = {"batch_size_per_device": 8, "world_size": 8}


START = datetime(2023, 12, 31, 23, 58, 0)


#: How programs write a time.
WRITTEN: dict[str, Callable[[datetime], str]] = {
    "iso": lambda time: f"[{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d}] ",
    "slashes": lambda time: f"{time:%Y/%m/%d %H:%M:%S} - INFO - ",
    "without a year": lambda time: f"[{time:%m/%d %H:%M:%S}] ",
    "with a name in it": lambda time: f"[{time:%m/%d %H:%M:%S} d2.utils.events]: ",
    "rich": lambda time: f"[{time:%m/%d/%y %H:%M:%S}] INFO ",
    "time alone": lambda time: f"{time:%H:%M:%S} ",
    "time alone in brackets": lambda time: f"[{time:%H:%M:%S}] INFO ",
    "time after a level": lambda time: f"INFO {time:%H:%M:%S} ",
    "glog": lambda time: f"I{time:%m%d %H:%M:%S}.{time.microsecond:06d} 17 train.py:3] ",
    "syslog": lambda time: f"{time:%b %d %H:%M:%S} host ",
    "ctime": lambda time: f"{time:%a %b %d %H:%M:%S %Y} ",
    "mllog": lambda time: (
        f'{{"time_ms": {1700000000000 + round((time - START) / timedelta(milliseconds=1))}}} '
    ),
}


@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
def test_a_clock_goes_on_over_midnight_and_the_new_year(write: Callable[[datetime], str]) -> None:
    clock = Clock()
    times = [START + timedelta(seconds=10 * i) for i in range(40)]
    at_s = np.array([clock.read(f"{write(time)}step 1".encode()) for time in times], dtype=float)

    assert np.diff(clock.unwrapped(at_s)) == pytest.approx(10)


@pytest.mark.parametrize("year", [2023, 2024])
def test_a_clock_without_a_year_passes_the_end_of_february(year: int) -> None:
    clock = Clock()
    times = [datetime(year, 2, 28) + timedelta(hours=3 * i) for i in range(20)]
    at_s = np.array([clock.read(f"[{time:%m/%d %H:%M:%S}]".encode()) for time in times])

    assert np.diff(clock.unwrapped(at_s)) == pytest.approx(3 * 3600)


@pytest.mark.parametrize(
    "line",
    [
        b" 10%|#  | 3/4 [00:08<00:12, 127.70it/s]",
        b"Epoch: [0]  [  10/150]  eta: 0:01:00  time: 0.5",
        b"step 3 elapsed 00:10:00",
        b"00:08<00:12 left",
        b"2023-13-41 10:00:00",
        b"ratio 12/25",
    ],
)
def test_what_is_left_or_was_taken_is_no_clock(line: bytes) -> None:
    assert stamp(line) is None


#: Dates of other things than a line, which go on as the steps do, but not as the time does.
OTHER_DATES = [
    "ETA {:%Y-%m-%d %H:%M:%S}",
    "eta: {:%m/%d/%Y %H:%M:%S}",
    "finishes {:%Y-%m-%d %H:%M:%S}",
    "finished at {:%b %d %H:%M:%S}",
    "done by {:%Y-%m-%dT%H:%M:%S}",
    "expected end: {:%Y-%m-%d %H:%M:%S}",
    "window {:%Y-%m-%d %H:%M:%S}",
    "data={:%Y/%m/%d %H:%M:%S}",
    "sample from {:%Y-%m-%d %H:%M:%S}",
    "forecast [{:%Y-%m-%d %H:%M:%S}]",
]


def with_other_dates(written: str, write: Callable[[datetime], str]) -> str:
    """Return steps of 3 s, whose lines name another date, 100 times as fast."""
    return "\n".join(
        f"{write(START + timedelta(seconds=3 * i))}step {i} | "
        f"{written.format(START + timedelta(seconds=300 * i))} | loss 2.5"
        for i in range(1, 201)
    )


@pytest.mark.parametrize("written", OTHER_DATES)
def test_a_date_behind_a_word_of_something_else_is_no_clock(tmp_path: Path, written: str) -> None:
    fmt = format_of_pattern(pattern(STEP))
    text = with_other_dates(written, lambda _: "")

    result = read(tmp_path / "train.log", text, fmt=fmt, **SIZES)

    assert result.throughput is None
    assert "no clock that is known" in message(result, "insufficient-data")


@pytest.mark.parametrize("written", [*OTHER_DATES, "{:%Y-%m-%d %H:%M:%S}", "x={:%m-%d %H:%M:%S}"])
@pytest.mark.parametrize("name", ["time alone in brackets", "without a year", "glog", "iso"])
def test_the_first_stamp_of_a_line_is_its_own(tmp_path: Path, written: str, name: str) -> None:
    fmt = format_of_pattern(pattern(STEP))
    text = with_other_dates(written, WRITTEN[name])

    result = read(tmp_path / "train.log", text, fmt=fmt, **SIZES)

    assert result.throughput == pytest.approx(64 / 3)


def test_a_date_of_something_else_contradicts_no_rate(tmp_path: Path) -> None:
    fmt = format_of_pattern(pattern(STEP + r".* (?P<rate>\S+) it/s", unit="samples"))
    text = with_other_dates(
        "0.333 it/s | ETA {:%Y-%m-%d %H:%M:%S}", WRITTEN["time alone in brackets"]
    )

    result = read(tmp_path / "train.log", text, fmt=fmt, batch_size_per_device=1, world_size=1)

    assert result.throughput == pytest.approx(0.333)
    assert "clock-mismatch" not in codes(result)


@pytest.mark.parametrize("hours", [0.01, 1, 2, 7, 11])
@pytest.mark.parametrize(
    "written",
    [
        "{:%m/%d/%Y %I:%M:%S %p} ",
        "[{:%Y-%m-%d %I:%M:%S.%f %p}] ",
        "{:%b %d %I:%M:%S%p} ",
        "{:%I:%M:%S %p} - ",
        "{time:%m/%d/%Y} {hour}:{time:%M:%S %p} ",
    ],
)
def test_a_clock_of_12_hours_goes_on(tmp_path: Path, written: str, hours: float) -> None:
    times = [START + timedelta(hours=hours * i) for i in range(80)]
    lines = [
        written.format(time, time=time, hour=time.hour % 12 or 12) + f"step {i} loss 2.5"
        for i, time in enumerate(times)
    ]
    fmt = format_of_pattern(pattern(STEP))

    result = read(tmp_path / "train.log", "\n".join(lines), fmt=fmt, **SIZES)

    assert result.throughput == pytest.approx(64 / (hours * 3600), rel=0.01)


def test_a_log_has_one_clock() -> None:
    clock = Clock()

    assert clock.read(b"[12/25 15:17:22] step 1") is not None
    assert clock.read(b"2023-12-25 15:17:23 step 2") is None
    assert clock.style in STYLES


def test_some_records_of_a_long_block_are_looked_at_next_to_each_other() -> None:
    indices = Clock().sample(100_000)

    assert len(indices) == 256
    assert np.sum(np.diff(indices) == 1) >= 240
    assert list(Clock().sample(5)) == [0, 1, 2, 3, 4]


def by_step(path: Path, write: Callable[[datetime], str], **options: object) -> LogResult:
    lines = (f"{write(START + timedelta(seconds=3 * i))}step {i} loss 2.5" for i in range(1, 201))
    path.write_text("\n".join(lines), encoding="utf-8")
    fmt = format_of_pattern(pattern(STEP))
    return extract(path, ParseOptions(fmt=fmt, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", ["time-weighted", "dlperf-time"])
@pytest.mark.parametrize("write", WRITTEN.values(), ids=WRITTEN)
def test_a_step_alone_suffices_where_the_lines_have_a_clock(
    tmp_path: Path, write: Callable[[datetime], str], rule: str
) -> None:
    result = by_step(
        tmp_path / "train.log", write, rule=rule, batch_size_per_device=6, world_size=1
    )

    assert result.throughput == pytest.approx(2)


def test_a_step_alone_without_a_clock_gives_none(tmp_path: Path) -> None:
    result = by_step(tmp_path / "train.log", lambda _: "", batch_size_per_device=6, world_size=1)

    assert result.throughput is None
    assert "no clock that is known: date and time" in message(result, "insufficient-data")


def test_a_step_alone_needs_the_work_of_an_iteration(tmp_path: Path) -> None:
    result = by_step(tmp_path / "train.log", WRITTEN["time alone"])

    assert "time of day without a date" in message(result, "unknown-scale")


def icefall(at_s: float, epoch: int, batch: int) -> str:
    return (
        f"2023-07-27 {12 + int(at_s // 3600):02d}:{int(at_s // 60 % 60):02d}:{at_s % 60:06.3f} "
        f"INFO [train.py:1089] (0/4) Epoch {epoch}, batch {batch}, loss[loss=0.8, "
        "simple_loss=0.7, over 1000.00 frames. ], tot_loss[loss=0.9, over 20000.00 frames. ], "
        "batch size: 85"
    )


def test_icefall_has_iterations_by_its_clock(tmp_path: Path) -> None:
    """Evaluations, checkpoints, and what an epoch had after its last print, are left out."""
    lines, at_s = [], 0.0
    for epoch in (1, 2, 3):
        for batch in range(0, 500, 50):
            lines.append(icefall(at_s, epoch, batch))
            at_s += 50 * 0.4
            if batch == 200:
                lines.append("2023-07-27 12:00:00,000 INFO [train.py:9] Computing validation loss")
                at_s += 300
        at_s += 60

    result = read(tmp_path / "log-train", "\n".join(lines))

    assert (result.format, result.unit) == ("icefall", "iterations")
    assert result.throughput == pytest.approx(2.5)
    assert not result.problems


STAMPS_BEFORE = [
    "{:%Y-%m-%dT%H:%M:%S}.1Z ",
    "{:%Y-%m-%dT%H:%M:%S}.123456+00:00 stdout F ",
    "{:%Y-%m-%dT%H:%M:%S}+00:00 ",
    "{:%a %b %d %H:%M:%S %Y}[1,0]<stdout>:",
]


@pytest.mark.parametrize("stamp_before", STAMPS_BEFORE)
@pytest.mark.parametrize("count", [40, 400])
def test_a_stamp_before_lines_without_another_is_their_clock(
    tmp_path: Path, stamp_before: str, count: int
) -> None:
    begin = datetime(2025, 3, 4, 10)
    lines = [
        stamp_before.format(begin + timedelta(seconds=15 * i))
        + f" iteration {10 * i:8d}/ 9999 | elapsed time per iteration (ms): 500.0 | "
        "global batch size: 64 |"
        for i in range(1, count)
    ]

    result = read(tmp_path / "megatron.log", "\n".join(lines))

    assert [problem.code for problem in result.problems if problem.code != "truncated"] == [
        "clock-mismatch"
    ]
    assert "it is 42.6667" in result.problems[-1].message


def test_the_stamp_of_a_line_goes_before_that_of_its_container() -> None:
    clock = Clock()

    first = clock.read(b"[2025-03-04 10:00:00] step 1", b"2025-03-04T17:00:00.1Z ")
    second = clock.read(b"[2025-03-04 10:00:05] step 2", b"2025-03-04T17:01:00.1Z ")

    assert first is not None
    assert second == first + 5


@pytest.mark.parametrize("begin", [datetime(2025, 3, 4, 17), datetime(2025, 3, 11, 17)])
@pytest.mark.parametrize("written", ["{:%d/%m/%Y %H:%M:%S} ", "{:%m/%d/%Y %H:%M:%S} "])
@pytest.mark.parametrize("year", [True, False])
def test_the_day_comes_first_in_all_dates_of_a_log_or_in_none(
    tmp_path: Path, begin: datetime, written: str, year: bool
) -> None:
    written = written if year else written.replace("/%Y", "")
    path = tmp_path / "train.log"
    path.write_text(
        "".join(
            f"{written.format(begin + timedelta(minutes=5 * i))}step {i} loss 2.0\n"
            for i in range(900)
        )
    )
    fmt = format_of_pattern(pattern(STEP))

    result = extract(path, ParseOptions(fmt=fmt, **SIZES))  # type: ignore[arg-type]

    assert result.throughput == pytest.approx(64 / 300, rel=1e-3)


def test_a_clock_that_is_set_back_is_no_time_of_iterations(tmp_path: Path) -> None:
    def write(time: datetime) -> str:
        shown = time if time < START + timedelta(minutes=5) else time - timedelta(minutes=4)
        return f"{shown:%Y-%m-%d %H:%M:%S} "

    result = by_step(tmp_path / "train.log", write, **SIZES)

    assert result.throughput == pytest.approx(64 / 3)


UNIX = [
    "{at:.3f} ",
    "[{at:.0f}] ",
    "{at:.6f}: ",
    "{milliseconds:.0f} ",
    "[INFO] [{at:.6f}]: ",
    "INFO:{at:.1f}:",
    '{{"timestamp": {at:.2f}, "loss": 2.0}} ',
    "ts={at:.3f} level=info ",
    "{at:.9f}\t",
]


@pytest.mark.parametrize("written", UNIX)
def test_unix_times_are_a_clock(tmp_path: Path, written: str) -> None:
    def write(time: datetime) -> str:
        at = 1_732_881_234 + (time - START).total_seconds()
        return written.format(at=at, milliseconds=1000 * at)

    result = by_step(tmp_path / "train.log", write, **SIZES)

    assert result.throughput == pytest.approx(64 / 3)


@pytest.mark.parametrize(
    "line",
    [
        "1732881234 tokens step 1",
        "1732881234/2000000000 step 1",
        "17328812345 step 1",
        "732881234 step 1",
        "step 1 seed 1732881234",
        "start_time=1732881234.5 step 1",
        "id 1732881234 step 1",
    ],
)
def test_other_numbers_of_ten_digits_are_no_clock(line: str) -> None:
    assert Clock().read(line.encode()) is None
