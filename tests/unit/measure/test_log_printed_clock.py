"""Logs that say how long iterations took by a clock of their own, and tables with a header."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_dlperf.measure.logs.user_pattern import elapsed_of
from tests.helpers.extracted import extracted
from tests.unit.measure.test_log_refusals import refused, shown
from tests.unit.measure.test_log_scale import message

SIZES = ("--batch_size_per_device=1", "--world_size=1")


def time_at(step: int) -> float:
    """Return the seconds since the begin: the first step took 20 of them, the others 0.5."""
    return 20 + 0.5 * step


def hours(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def write(path: Path, head: str, line: Callable[[int, float], str], every: int = 1) -> None:
    lines = "".join(f"{line(i, time_at(i))}\n" for i in range(0, 400, every))
    path.write_text(head + lines, encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12.5", 12.5),
        ("119", 119),
        ("1,234.5", 1234.5),
        ("02:03", 123),
        ("1:02:03", 3723),
        ("0:01:59.50", 119.5),
        ("1 day, 2:03:04", 93784),
        ("2d 3h", 183600),
        ("1h 2m 3s", 3723),
        ("1m2.5s", 62.5),
        ("1.99 min", 119.4),
        ("", None),
        ("abc", None),
        ("1:2:3:4", None),
    ],
)
def test_an_elapsed_time_is_read_as_it_is_written(text: str, seconds: float | None) -> None:
    assert elapsed_of(text.encode()) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("line", "every"),
    [
        (lambda i, s: f"[{s:8.1f}s] step {i} loss 2.5", 1),
        (lambda i, s: f"[0 days {hours(s):>08}] iter {i} | loss 2.5", 1),
        (lambda i, s: f"step {i} loss 2.5 elapsed {s:.1f}s", 1),
        (lambda i, s: f"Batch {i} of 5,000. Loss 2.5. Elapsed: {hours(s)}.", 10),
        (lambda i, s: f"iter {i} | loss 2.5 | elapsed {s / 60:.2f} min", 1),
        (lambda i, s: f"iter {i} | elapsed: {s // 60:.0f}m {s % 60:.1f}s | loss 2.5", 1),
        (lambda i, s: f"step={i} loss=2.5 elapsed_s={s:.2f}", 1),
        (lambda i, s: f'{{"step": {i}, "loss": 2.5, "wall_time_sec": {s:.2f}}}', 1),
        (lambda i, s: f"12:00:00 step {i} loss 2.5 total time: {s:.1f} s", 1),
    ],
)
def test_a_pattern_of_the_time_since_the_begin_is_shown_and_reads_the_log(
    tmp_path: Path, line: Callable[[int, float], str], every: int
) -> None:
    path = tmp_path / "train.log"
    write(path, "", line, every)

    options = shown(refused(path, path.read_bytes()))

    assert "(?P<elapsed>" in options[0]
    assert extracted(path, *options, *SIZES).throughput == pytest.approx(2, rel=0.02)
    assert extracted(path, *options, "--unit=iterations").throughput == pytest.approx(2, rel=0.02)


def test_hours_alone_may_be_a_time_of_day(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write(path, "", lambda i, s: f"+{hours(s):>08} step {i} loss 2.5")

    options = shown(refused(path, path.read_bytes()))

    assert extracted(path, *options, *SIZES).throughput == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(
    ("line", "pattern", "said"),
    [
        (lambda i, s: f"step {i} t {hours(s)}", r"step (?P<step>\d+) t (?P<elapsed>\d+)", "clock"),
        (lambda i, s: f"step {i} t {s / 60:.2f} min", r"(?P<step>\d+) t (?P<elapsed>\S+)", "unit"),
        (lambda i, s: f"step {i} t {s * 1e3:.0f}ms", r"(?P<step>\d+) t (?P<elapsed>\d+)", "unit"),
        (
            lambda i, s: f"step {i} t {1741082400000 + s * 1e3:.0f}",
            r"(?P<step>\d+) t (?P<elapsed>\d+)",
            "seconds since 1970 have ten digits",
        ),
        # Whole minutes, of which the log has three
        (
            lambda i, s: f"step {i} t {s // 60:.0f} min",
            r"(?P<step>\d+) t (?P<elapsed>.*)",
            "still",
        ),
        # The time of each print
        (
            lambda i, s: f"step {i}00 t {30 + i * 7 % 5}s",
            r"(?P<step>\d+) t (?P<elapsed>\d+)",
            "back",
        ),
    ],
)
def test_a_part_of_a_clock_another_unit_and_a_time_of_prints_are_no_elapsed_time(
    tmp_path: Path, line: Callable[[int, float], str], pattern: str, said: str
) -> None:
    path = tmp_path / "train.log"
    write(path, "", line)

    result = extracted(path, f"--pattern={pattern}", "--unit=iterations")

    assert result.throughput is None
    assert said in message(result, "insufficient-data")


def test_an_elapsed_time_beside_a_rate_is_compared_with_it(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    pattern = r"--pattern=step (?P<step>\d+) t=(?P<elapsed>\S+) (?P<rate>\S+) it/s"

    write(path, "", lambda i, s: f"step {i} t={s:.2f} 2.0 it/s")
    assert extracted(path, pattern, "--unit=iterations").throughput == 2

    write(path, "", lambda i, s: f"step {i} t={s:.2f} 4.0 it/s")
    result = extracted(path, pattern, "--unit=iterations")
    assert "time since the begin" in message(result, "clock-mismatch")


def test_a_clock_that_begins_again_with_an_epoch_has_what_is_between_in_no_rate(
    tmp_path: Path,
) -> None:
    path = tmp_path / "train.log"
    path.write_text(
        "".join(f"epoch {e} step {i} t={i / 2:.2f}s\n" for e in range(3) for i in range(100)),
        encoding="utf-8",
    )
    pattern = r"--pattern=epoch (?P<epoch>\d+) step (?P<step>\d+) t=(?P<elapsed>[\d.]+)"

    assert extracted(path, pattern, "--unit=iterations").throughput == pytest.approx(2)


def test_a_time_that_grows_without_a_unit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write(path, "", lambda i, s: f"step={i} loss=2.5 total_time={s:.2f}")

    said = message(refused(path, path.read_bytes()), "unknown-format")

    assert "'total_time=119.50' grows as the time since the begin does" in said


TABLES: dict[str, Callable[[int, float], str]] = {
    "step,loss,elapsed_s": lambda i, s: f"{i},2.5,{s:.2f}",
    "step,loss,seconds_per_step": lambda i, s: f"{i},2.5,{20.0 if i == 0 else 0.5}",
    "epoch,iter,step_time_ms,loss": lambda i, s: f"{i // 100},{i},{20e3 if i == 0 else 500},2",
    "timestamp,step,loss": lambda i, s: f"2025-03-04 10:{int(s) // 60:02d}:{s % 60:06.3f},{i},2.5",
    "Wall time,Step,Value": lambda i, s: f"{1741082400 + s:.3f},{i},2.5",
    "_step,_runtime,train/loss": lambda i, s: f"{i},{s:.3f},2.5",
    "iter\tloss\tsteps_per_sec": lambda i, s: f"{i}\t2.5\t{0.05 if i == 0 else 2}",
    "step;time;loss": lambda i, s: f"{i};{hours(s)};2.5",
    "step,tokens,elapsed_s": lambda i, s: f"{i},512,{s:.2f}",
    "step,time_s,loss": lambda i, s: f"{i},{s:.2f},2.5",
    "step, loss, elapsed_s": lambda i, s: f"{i}, 2.5, {s:.2f}",
}


@pytest.mark.parametrize("header", TABLES)
def test_a_pattern_of_a_table_is_shown_and_reads_it(tmp_path: Path, header: str) -> None:
    path = tmp_path / "metrics.csv"
    write(path, header + "\n", TABLES[header])

    options = shown(refused(path, path.read_bytes()))

    assert extracted(path, *options, *SIZES).throughput == pytest.approx(2, rel=0.02)


@pytest.mark.parametrize(
    ("header", "line", "group"),
    [
        ("step,loss,step_time", lambda i, s: f"{i},2.5,0.5", "seconds"),
        ("step,loss,time", lambda i, s: f"{i},2.5,{s:.2f}", "elapsed"),
    ],
)
def test_the_unit_of_a_column_that_nothing_says_is_asked(
    tmp_path: Path, header: str, line: Callable[[int, float], str], group: str
) -> None:
    path = tmp_path / "metrics.csv"
    write(path, header + "\n", line)
    result = refused(path, path.read_bytes())

    assert "in seconds or in milliseconds; if it is in seconds" in message(
        result, "unknown-format"
    )
    options = shown(result)
    assert f"(?P<{group}>" in options[0]
    assert extracted(path, *options, *SIZES).throughput == pytest.approx(2, rel=0.02)


def test_a_table_without_a_time_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    write(path, "epoch,step,train_loss,val_loss\n", lambda i, s: f"{i // 100},{i},2.5,")

    said = message(refused(path, path.read_bytes()), "unknown-format")

    assert "a table with the columns 'epoch,step,train_loss,val_loss'" in said
    assert "--pattern" not in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # A time of a step that hardly changes is no time since the begin
        (
            "step,step_time\n" + "".join(f"{i},{0.5 + (i > 350) / 10}\n" for i in range(400)),
            "seconds>",
        ),
        (
            "step,speed\n" + "".join(f"{i},{i / 9}\n" for i in range(400)),
            "nothing says what it counts",
        ),
        (
            2 * ("step,elapsed_s\n" + "".join(f"{i},{i / 2}\n" for i in range(200))),
            "several-runs: 2 runs",
        ),
        (
            "step,samples_per_sec\n"
            + "".join(f"{i},{32 * i / (20 + 0.5 * i):.2f}\n" for i in range(1, 400)),
            "--averaging=running (a mean since the begin)",
        ),
        ("step,time\n" + "".join(f"{i},{1e5 + i / 2}\n" for i in range(400)), "none is a step"),
        (
            "NOTE: throughput below is per GPU\nstep,tok/s\n"
            + "".join(f"{i},640.0\n" for i in range(400)),
            "--unit=tokens and --scope=device or process",
        ),
        (
            "step,time_s\n" + "".join(f"{i * 10},{5 + i % 3 / 10}\n" for i in range(400)),
            "the time of one iteration, or of the 10 between two lines",
        ),
        ("step,time_ms\n" + "".join(f"{i},{i * 500}\n" for i in range(400)), "is not in seconds"),
        ("step,elapsed_min\n" + "".join(f"{i},{i / 2}\n" for i in range(400)), "not in seconds"),
        (
            "step,time\n" + "".join(f"{i},{i // 60:02d}:{i % 60:02d}\n" for i in range(400)),
            "whether it is hours and minutes, or minutes and seconds",
        ),
        ("epoch,epoch_time_s\n" + "".join(f"{i},120.5\n" for i in range(99)), "none is a step"),
    ],
)
def test_what_the_columns_of_a_table_leave_open_is_said(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(text, encoding="utf-8")

    assert said in message(refused(path, path.read_bytes()), "unknown-format")


def test_a_sentence_with_a_comma_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    head = "Starting training, this may take a while\n"
    write(path, head, lambda i, s: f"step {i} loss 2.5 64.0 samples/s,{s:.1f}")

    options = shown(refused(path, path.read_bytes()))

    assert extracted(path, *options).throughput == 64


@pytest.mark.parametrize(
    "line",
    [
        # Minutes of a day
        lambda i, s: f"[{1 + i // 60:02d}:{i % 60:02d}] step {i} loss 2.5",
        lambda i, s: f"step {i} data elapsed {s / 5:.1f}s elapsed {s:.1f}s loss 2.5",
    ],
)
def test_no_pattern_is_shown_of_a_time_that_may_be_of_something_else(
    tmp_path: Path, line: Callable[[int, float], str]
) -> None:
    path = tmp_path / "train.log"
    write(path, "", line)

    assert "--pattern" not in message(refused(path, path.read_bytes()), "unknown-format")


def test_a_time_at_the_begin_of_lines_may_be_that_of_a_step(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write(path, "", lambda i, s: f"{0.5 + i % 5 / 1000:.3f}s step {i} loss 2.5")

    said = message(refused(path, path.read_bytes()), "unknown-format")

    assert "nothing says what" in said
    assert "--pattern" not in said
