"""Speeds that drift as means since the run began do, and sentences that say whose rates are."""

from __future__ import annotations

import random
from itertools import accumulate
from pathlib import Path

import pytest

from tests.helpers.extracted import extracted
from tests.unit.measure.test_log_refusals import refused
from tests.unit.measure.test_log_scale import codes, message

PATTERN = r"--pattern=step (?P<step>\d+) (?P<rate>[\d.]+) it/s"


def write(
    path: Path, kind: str, *, every: int = 10, digits: int = 4, jitter: float = 0.05
) -> None:
    """Write a log of 2 iterations a second, the first of which took 30 s."""
    draw = random.Random(5)
    times = [30.0, *(0.5 * draw.uniform(1 - jitter, 1 + jitter) for _ in range(1999))]
    ends = list(accumulate(times))
    lines = []
    for i in range(every, 2001, every):
        since, begin_s = (
            (i, 0.0) if kind == "running" or i == every else (every, ends[i - every - 1])
        )
        lines.append(f"step {i} {since / (ends[i - 1] - begin_s):.{digits}g} it/s\n")
    path.write_text("".join(lines), encoding="utf-8")


@pytest.mark.parametrize("every", [1, 10, 50])
@pytest.mark.parametrize("digits", [2, 4])
def test_it_is_asked_what_speeds_are_means_over_that_drift_as_means_of_the_run(
    tmp_path: Path, every: int, digits: int
) -> None:
    path = tmp_path / "train.log"
    write(path, "running", every=every, digits=digits)

    asked = extracted(path, PATTERN, "--unit=iterations")
    assert asked.throughput is None
    assert "as means since the begin, running" in message(asked, "averages-differ")
    if digits == 2:
        return  # too few to take a mean of the run apart
    said = extracted(path, PATTERN, "--unit=iterations", "--averaging=running")
    assert said.throughput == pytest.approx(2, rel=0.05)
    shown = message(refused(path, path.read_bytes()), "unknown-format")
    assert "--averaging=running (a mean" in shown


@pytest.mark.parametrize("every", [1, 10, 50])
@pytest.mark.parametrize("jitter", [0.001, 0.05, 0.3])
def test_nothing_is_asked_of_speeds_that_are_of_each_window(
    tmp_path: Path, every: int, jitter: float
) -> None:
    path = tmp_path / "train.log"
    write(path, "window", every=every, jitter=jitter)

    assert extracted(path, PATTERN, "--unit=iterations").throughput == pytest.approx(2, rel=0.03)


@pytest.mark.parametrize("name", ["avg ", "mean_", ""])
def test_a_mean_by_its_name_is_asked_about_though_a_run_turns_slow(
    tmp_path: Path, name: str
) -> None:
    draw = random.Random(3)
    ends = list(accumulate(draw.uniform(0.8, 1.2) * (1 + (i > 1000)) for i in range(2000)))
    path = tmp_path / "train.log"
    path.write_text(
        "".join(f"step {i} {name}rate={i / ends[i - 1]:.3f}\n" for i in range(50, 2001, 50)),
        encoding="utf-8",
    )

    result = extracted(path, r"--pattern=step (?P<step>\d+) .*rate=(?P<rate>\S+)")

    assert result.throughput is None
    assert "as means since the begin, running" in message(result, "averages-differ")


@pytest.mark.parametrize(
    ("speed", "every"),
    [
        ("avg rate={}", 1),
        ("avg rate={}", 10),
        ("meanRate={}", 1),
        ("rate (avg)={}", 1),
        ("rate={} it/s (avg)", 1),
    ],
)
def test_a_mean_by_its_name_is_asked_about_though_each_epoch_begins_slowly(
    tmp_path: Path, speed: str, every: int
) -> None:
    path = tmp_path / "train.log"
    lines = [
        f"epoch {epoch} step {i} {speed.format(f'{i / (30 + 0.5 * (i - 1)):.3f}')}\n"
        for epoch in range(4)
        for i in range(every, 501, every)
    ]
    path.write_text("".join(lines), encoding="utf-8")
    pattern = r"--pattern=epoch (?P<epoch>\d+) step (?P<step>\d+) .*=(?P<rate>[\d.]+)"

    result = extracted(path, pattern, "--unit=iterations")

    assert result.throughput is None
    assert "as means since the begin, running" in message(result, "averages-differ")


HEADS = (
    "NOTE: throughput below is per GPU",
    "Throughput (per device) is shown every 10 steps",
    "All rates are of one device",
    "tokens/s are reported per GPU",
    "INFO: samples/s is measured on rank 0 only",
)
STEP = r"--pattern=step (?P<step>\d+) .*?(?P<rate>\S+) samples/s"


def with_head(path: Path, head: str) -> None:
    lines = "".join(f"step {i} loss 2.5 64.0 samples/s\n" for i in range(200))
    path.write_text(f"{head}\n{lines}", encoding="utf-8")


@pytest.mark.parametrize("head", HEADS)
def test_a_sentence_that_rates_are_of_a_device_contradicts_a_pattern_of_all(
    tmp_path: Path, head: str
) -> None:
    path = tmp_path / "train.log"
    with_head(path, head)

    result = extracted(path, STEP)
    assert result.throughput is None
    assert head in message(result, "unknown-scale")
    assert extracted(path, STEP, "--scope=device", "--world_size=8").throughput == 512
    assert extracted(path, STEP, "--scope=global").throughput == 64
    assert extracted(path, STEP, "--world_size=1").throughput == 64
    assert "--scope=device or process" in message(
        refused(path, path.read_bytes()), "unknown-format"
    )


@pytest.mark.parametrize(
    "head",
    [
        "learning rate is per device",
        "throughput is summed over all GPUs",
        "batch size per device: 8",
        "Throughput is not per GPU",
        "eval throughput is per GPU",
        "peak FLOP/s per GPU",
    ],
)
def test_other_sentences_say_nothing_of_the_rates(tmp_path: Path, head: str) -> None:
    path = tmp_path / "train.log"
    with_head(path, head)

    result = extracted(path, STEP)
    assert result.throughput == 64
    assert not codes(result)
