"""Rates that the clock of their lines contradicts, by a batch or a time that the log says."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.measure.test_log_other_units import by_pattern
from tests.unit.measure.test_log_scale import codes, message

START = datetime(2025, 3, 4, 10, 11, 12)
PATTERN = r"--pattern=step (?P<step>\d+).*?(?P<rate>[\d.]+) samples/s"
TOKENS = (r"--pattern=step (?P<step>\d+).*?(?P<rate>[\d.]+) tok/s", "--unit=tokens")
#: By the rate and the time of the lines an iteration is of 128 samples.
TIME = "step_time 0.2000s 640.0 samples/s"
RATE = "640.0 samples/s"


def log(header: str, rate: str, each_s: float, *, every: int = 10, count: int = 40) -> str:
    lines = [header] if header else []
    for i in range(1, count + 1):
        time = START + timedelta(seconds=each_s * every * i)
        stamp = f"{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d}"
        lines.append(f"{stamp} INFO step {every * i} loss 2.{i % 7} | {rate}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("header", "rate", "options"),
    [
        ("Namespace(arch='vit', batch_size=128, world_size=1)", RATE, (PATTERN,)),
        ("batch_size: 128\nworld_size: 1", RATE, (PATTERN,)),
        ("global_batch_size: 128", RATE, (PATTERN,)),
        ("total_batch_size=128", RATE, (PATTERN,)),
        ("{'effective_train_batch_size': 128}", RATE, (PATTERN,)),
        ("args: batch_size=128, gpus=1", TIME, (PATTERN,)),
        ("", TIME, (PATTERN,)),
        ("", "200.0ms/step 640.0 samples/s", (PATTERN,)),
        ("", "dt: 200.0ms, 640.0 samples/s", (PATTERN,)),
        ("", "200.0ms/step 81920 tok/s", TOKENS),
    ],
)
@pytest.mark.parametrize("every", [1, 10])
def test_a_clock_that_goes_slower_gives_no_number(
    tmp_path: Path, header: str, rate: str, options: tuple[str, ...], every: int
):
    slow = by_pattern(
        tmp_path / "a.log", log(header, rate, 0.31, every=every, count=120), *options
    )
    right = by_pattern(
        tmp_path / "b.log", log(header, rate, 0.2, every=every, count=120), *options
    )

    assert slow.throughput is None
    assert "0.31 s" in message(slow, "clock-mismatch")
    assert right.throughput == pytest.approx(81920 if options is TOKENS else 640)
    assert "clock-mismatch" not in codes(right)


@pytest.mark.parametrize(
    ("header", "each_s"),
    [
        # Several devices of 128, accumulated batches, settings of two runs, and of an evaluation
        ("batch_size: 128", 0.4),
        ("batch_size: 128", 0.8),
        ("global_batch_size: 128", 0.05),
        ("global_batch_size: 128\nglobal_batch_size: 200", 0.31),
        ("eval_global_batch_size: 128", 0.31),
        ("total_batch_size: 128k", 0.31),
    ],
)
def test_a_batch_that_may_be_another_contradicts_nothing(
    tmp_path: Path, header: str, each_s: float
):
    result = by_pattern(tmp_path / "a.log", log(header, RATE, each_s), PATTERN)

    assert result.throughput == pytest.approx(640)


@pytest.mark.parametrize(
    "rate",
    [
        "data_time 0.2000s 640.0 samples/s",  # not of an iteration
        "step_time 0.2s 640.0 samples/s",  # of too few digits
        "fwd 0.1000s bwd 0.1000s 640.0 samples/s",
        "avg step_time 0.2000s 640.0 samples/s",
    ],
)
def test_a_time_that_may_be_of_something_else_contradicts_nothing(tmp_path: Path, rate: str):
    result = by_pattern(tmp_path / "a.log", log("", rate, 0.31), PATTERN)

    assert result.throughput == pytest.approx(640)


def test_a_rate_of_another_timer_than_the_time_contradicts_nothing(tmp_path: Path):
    """As a rate with the waits for data in it, beside the time of a step without them."""
    text = log("", "step_time 0.2000s 640.0 samples/s", 0.31)
    lines = [
        line.replace("640.0", f"{640 * (1 + i % 5 / 20):.1f}")
        for i, line in enumerate(text.splitlines(keepends=True))
    ]

    assert by_pattern(tmp_path / "a.log", "".join(lines), PATTERN).throughput


def test_a_declared_batch_goes_before_what_the_lines_say(tmp_path: Path):
    text = log("", TIME, 0.31)
    sizes = ("--batch_size_per_device=198", "--world_size=1")

    assert by_pattern(tmp_path / "a.log", text, PATTERN, *sizes).throughput == pytest.approx(640)


def test_a_pattern_that_the_clock_contradicts_is_not_shown(tmp_path: Path):
    result = by_pattern(tmp_path / "a.log", log("", TIME, 0.31, count=120))

    said = message(result, "unknown-format")
    assert "clock-mismatch" in said
    assert r"--pattern='\bstep *(?P<step>\d+)'" in said


def deepspeed(each_s: float, batch: int) -> str:
    lines = [f"[2025-03-04 10:11:00,123] [INFO]   train_batch_size ............. {batch}"]
    for i in range(1, 41):
        time = START + timedelta(seconds=10 * each_s * i)
        lines.append(
            f"[{time:%Y-%m-%d %H:%M:%S},000] [INFO] [timer.py:260:stop] epoch=0/micro_step="
            f"{10 * i}/global_step={10 * i}, RunningAvgSamplesPerSec=128.0, "
            "CurrSamplesPerSec=128.0, MemAllocated=12.91GB"
        )
    return "\n".join(lines) + "\n"


def torchtitan(each_s: float, batch: int) -> str:
    lines = [
        f"Trainer is initialized with local batch size {batch}, global batch size {8 * batch}, "
        "gradient accumulation steps 1, sequence length 8192, total steps 1000 (warmup 200)"
    ]
    for i in range(1, 41):
        time = START + timedelta(seconds=10 * each_s * i)
        lines.append(
            f"[titan] {time:%Y-%m-%d %H:%M:%S},000 - root - INFO - step: {10 * i}  loss:  8.2724  "
            "grad_norm:  1.0  memory: 47.28GiB(59.70%)  tps: 8,192  tflops: 424.1  mfu: 42.9%"
        )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("options", [(), ("--world_size=8",)])
@pytest.mark.parametrize("program", [deepspeed, torchtitan])
def test_a_batch_that_a_program_prints_is_compared_with_the_clock(
    tmp_path: Path, program: object, options: tuple[str, ...]
):
    assert callable(program)
    unit = 1 if program is torchtitan else 128
    for each_s, agrees in ((1.0, True), (0.5, True), (1.6, False), (3.2, False)):
        result = by_pattern(tmp_path / f"{each_s}.log", program(each_s, unit), *options)

        assert (result.throughput is not None) is agrees
        assert ("clock-mismatch" in codes(result)) is not agrees
