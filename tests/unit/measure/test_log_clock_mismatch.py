"""Rates that a log prints, beside the time that its clock says went by."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern
from tests.unit.measure.test_log_scale import codes, message, read

SIZES = {"batch_size_per_device": 8, "world_size": 8}


START = datetime(2023, 12, 31, 23, 58, 0)


def deepspeed(every_s: Callable[[int], float], rate: float = 85.0, count: int = 40) -> str:
    """Return prints of DeepSpeed, ten steps apart."""
    time, lines = START, []
    for i in range(1, count + 1):
        time += timedelta(seconds=every_s(i))
        lines.append(
            f"[{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03d}] [INFO] "
            f"[timer.py:199:stop] epoch=0/micro_step={10 * i}/global_step={10 * i}, "
            f"RunningAvgSamplesPerSec={rate + 1}, CurrSamplesPerSec={rate}, MemAllocated=10.77GB"
        )
    return "\n".join(lines)


def test_rates_that_the_clock_contradicts_give_no_number(tmp_path: Path) -> None:
    result = read(tmp_path / "train.log", deepspeed(lambda _: 37.7), **SIZES)

    assert result.throughput is None
    said = message(result, "clock-mismatch")
    assert "85 samples/s" in said
    assert f"{640 / 37.7:.6g}" in said


def test_rules_that_name_what_they_take_give_a_number_that_the_clock_contradicts(
    tmp_path: Path,
) -> None:
    text = deepspeed(lambda _: 37.7)

    by_time = read(tmp_path / "a.log", text, rule="dlperf-time", until=1000, **SIZES)
    printed = read(tmp_path / "b.log", text, rule="dlperf", until=1000, **SIZES)

    assert by_time.throughput == pytest.approx(640 / 37.7)
    assert printed.throughput == pytest.approx(85)
    assert "clock-mismatch" in codes(printed)


#: Seconds between prints whose rates say 640 / 85, as most of them have.
SILENT_PAUSES: dict[str, Callable[[int], float]] = {
    "every other print": lambda i: 640 / 85 + (i % 2) * 30,
    "a long one": lambda i: 640 / 85 + (i == 20) * 3000,
    "every fourth print": lambda i: 640 / 85 * (9 if i % 4 == 0 else 1),
    "the last third": lambda i: 640 / 85 * (1 if i < 28 else 3),
}


@pytest.mark.parametrize("every_s", SILENT_PAUSES.values(), ids=SILENT_PAUSES)
@pytest.mark.parametrize("rule", ["time-weighted", "dlperf"])
def test_both_rates_are_said_where_more_time_passed_in_all_and_nothing_says_why(
    tmp_path: Path, every_s: Callable[[int], float], rule: str
) -> None:
    prints = deepspeed(every_s)

    result = read(tmp_path / "train.log", prints, rule=rule, until=1000, **SIZES)

    assert result.throughput == pytest.approx(85)
    said = message(result, "clock-mismatch")
    assert "85 samples/s" in said
    by_clock = float(said.split(") ")[1].split(" in all")[0])
    after_warm_up = range(7, 41)
    assert by_clock == pytest.approx(640 * 34 / sum(map(every_s, after_warm_up)), rel=0.01)


@pytest.mark.parametrize("every_s", SILENT_PAUSES.values(), ids=SILENT_PAUSES)
def test_pauses_that_the_log_names_do_not_contradict_rates(
    tmp_path: Path, every_s: Callable[[int], float]
) -> None:
    lines = deepspeed(every_s).split("\n")
    named = [
        line if every_s(i) < 8 else f"Saving checkpoint\n{line}" for i, line in enumerate(lines, 1)
    ]

    result = read(tmp_path / "train.log", "\n".join(named), **SIZES)

    assert result.throughput == pytest.approx(85)
    assert codes(result) == {"left-out"}


@pytest.mark.parametrize(
    "every_s",
    [
        lambda _: 640 / 85,
        lambda i: 640 / 85 + (i == 20) * 25,
        lambda i: 640 / 85 + (i % 8 == 0) * 6,
    ],
    ids=["as printed", "a short pause", "some short pauses"],
)
def test_little_more_time_does_not_contradict_rates(
    tmp_path: Path, every_s: Callable[[int], float]
) -> None:
    result = read(tmp_path / "train.log", deepspeed(every_s), **SIZES)

    assert result.throughput == pytest.approx(85)
    assert not codes(result)


@pytest.mark.parametrize(
    "every_s",
    [
        lambda i: 640 / 85 * (1 if i < 20 else 2),
        lambda i: 640 / 85 * (1 if i % 3 == 0 else 10),
        lambda i: 640 / 85 * (1 if i % 5 < 2 else 3),
    ],
    ids=["half", "two of three", "three of five"],
)
def test_rates_that_most_stretches_contradict_give_no_number(
    tmp_path: Path, every_s: Callable[[int], float]
) -> None:
    result = read(tmp_path / "train.log", deepspeed(every_s), **SIZES)

    assert result.throughput is None
    assert "clock-mismatch" in codes(result)


@pytest.mark.parametrize(
    ("every_s", "contradicts"),
    [
        (lambda _: 7.5, False),
        (lambda i: 7.5 if i < 20 else 22.5, True),
        (lambda i: 7.5 + (i % 5 == 0) * 60, True),
    ],
    ids=["steady", "half", "every fifth"],
)
def test_no_batch_makes_both_rates_and_a_clock_that_changes(
    tmp_path: Path, every_s: Callable[[int], float], contradicts: bool
) -> None:
    result = read(tmp_path / "train.log", deepspeed(every_s))

    assert result.throughput == pytest.approx(85)
    assert ("clock-mismatch" in codes(result)) is contradicts


def test_stamps_of_whole_seconds_do_not_contradict_short_steps(tmp_path: Path) -> None:
    fmt = format_of_pattern(pattern(r"step (?P<step>\d+) (?P<rate>\S+) it/s", unit="samples"))
    lines = (
        f"[{START + timedelta(seconds=1.4 * i):%m/%d %H:%M:%S}] step {i} 0.714 it/s"
        for i in range(300)
    )

    result = read(
        tmp_path / "train.log",
        "\n".join(lines),
        fmt=fmt,
        batch_size_per_device=1,
        world_size=1,
    )

    assert result.throughput == pytest.approx(0.714)


def test_a_rate_too_low_for_one_sample_an_iteration_contradicts_the_clock(tmp_path: Path) -> None:
    result = read(tmp_path / "train.log", deepspeed(lambda _: 37.7, rate=0.1))

    assert "0.377 samples an iteration" in message(result, "clock-mismatch")


@pytest.mark.parametrize(
    ("line", "contradicts"),
    [("saving checkpoint to /x", False), ("Evaluation: loss 2.0", False), ("reward 3.1", True)],
)
def test_an_evaluation_before_each_print_contradicts_nothing(
    tmp_path: Path, line: str, contradicts: bool
) -> None:
    prints = deepspeed(lambda _: 37.7).replace("\n", f"\n{line}\n")

    result = read(tmp_path / "train.log", prints, **SIZES)

    assert (result.throughput is None) is contradicts
    assert ("clock-mismatch" in codes(result)) is contradicts


def test_no_evaluation_makes_a_clock_faster(tmp_path: Path) -> None:
    prints = deepspeed(lambda _: 5.0).replace("\n", "\nEvaluation\n")

    result = read(tmp_path / "train.log", prints, **SIZES)

    assert f"{640 / 5.0:.6g}" in message(result, "clock-mismatch")


def detectron2(every: int, evaluation: str) -> str:
    """Return prints 20 iterations of 0.2 s apart, with evaluations of 30 s after some of them."""
    time, lines = START, ["SOLVER:", "  IMS_PER_BATCH: 16"]
    for i in range(1, 61):
        time += timedelta(seconds=4)
        lines.append(
            f"[{time:%m/%d %H:%M:%S} d2.utils.events]:  eta: 0:02:30  iter: {20 * i - 1}  "
            "total_loss: 6.9  time: 0.2000  last_time: 0.2000  data_time: 0.0010  "
            "last_data_time: 0.0010   lr: 0.002  max_mem: 2706M"
        )
        if i % every == 0:
            lines.append(f"[{time:%m/%d %H:%M:%S} d2.evaluation.evaluator]: {evaluation}")
            time += timedelta(seconds=30)
    return "\n".join(lines)


@pytest.mark.parametrize("every", [5, 2, 1])
def test_prints_after_an_evaluation_do_not_contradict_rates(tmp_path: Path, every: int) -> None:
    prints = detectron2(every, "Start inference on 100 batches")

    result = read(tmp_path / "train.log", prints, world_size=1)

    assert result.throughput == pytest.approx(16 / 0.2)
    assert codes(result) == {"left-out"}
    assert "before" in message(result, "left-out")


def test_prints_without_an_evaluation_contradict_rates_as_ever(tmp_path: Path) -> None:
    prints = detectron2(5, "Start inference on 100 batches").replace(
        "time: 0.2000", "time: 0.1000"
    )

    result = read(tmp_path / "train.log", prints, world_size=1)

    assert "80: 0.2 s an iteration" in message(result, "clock-mismatch")


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: torch.utils.checkpoint: please pass in use_reentrant=True or False explicitly.",
        "reading /data/test/shard-000.tar",
        "args: eval_steps=100 --eval-interval=10 test_size: 4 save_dir=out/checkpoint",
        "best_val_loss_so_far 2.3, lr 0.1",
        "latest valid_tokens 4096",
    ],
)
def test_a_part_of_a_path_or_of_a_setting_names_no_evaluation(tmp_path: Path, line: str) -> None:
    prints = deepspeed(lambda _: 37.7).replace("\n", f"\n{line}\n")

    result = read(tmp_path / "train.log", prints, **SIZES)

    assert result.throughput is None
    assert "clock-mismatch" in codes(result)


@pytest.mark.parametrize(
    "line",
    [
        "***** Running Evaluation *****",
        "{'eval_loss': 1.2, 'eval_runtime': 30.0}",
        "Running validation...",
        "[eval] step 3",
        "Epoch 3: val_loss 0.3",
        '{"key": "eval_start", "value": null}',
        "Saving model checkpoint to ./out/checkpoint-500",
        "Saved checkpoint.",
        "Evaluating: 100%",
        "Test set: average loss 0.2",
    ],
)
def test_what_is_done_between_prints_is_named_by_its_words(tmp_path: Path, line: str) -> None:
    prints = deepspeed(lambda _: 37.7).replace("\n", f"\n{line}\n")

    result = read(tmp_path / "train.log", prints, **SIZES)

    assert result.throughput == pytest.approx(85)
    assert "1282 s passed there" in message(result, "left-out")


def orbit(each_s: float, *, digits: int = 1, every: int = 100, count: int = 60) -> str:
    """Return prints of ``orbit/controller.py``, which rounds a rate to one decimal.

    https://github.com/tensorflow/models/blob/master/orbit/controller.py
    """
    lines = []
    for i in range(1, count + 1):
        time = START + timedelta(seconds=i * every * each_s)
        lines.append(
            f"I{time:%m%d %H:%M:%S.%f} 140 controller.py:457] train | step: {i * every: 6d} | "
            f"steps/sec: {1 / each_s: 6.{digits}f} | output: {{'loss': 2.0}}"
        )
    return "\n".join(lines)


ORBIT = r"step: *(?P<step>\d+) \| steps/sec: *(?P<rate>[\d.]+)"


@pytest.mark.parametrize("each_s", [4.0, 2.9, 3.9, 1.6])
def test_a_rate_of_few_digits_is_said_to_be_one_and_contradicts_no_clock(
    tmp_path: Path, each_s: float
) -> None:
    fmt = format_of_pattern(pattern(ORBIT, unit="iterations"))

    result = read(tmp_path / "train.log", orbit(each_s), fmt=fmt)

    assert codes(result) == {"few-digits"}
    assert result.throughput == pytest.approx(1 / each_s, abs=0.05)


def test_a_rate_of_more_digits_that_is_apart_contradicts_the_clock(tmp_path: Path) -> None:
    fmt = format_of_pattern(pattern(ORBIT, unit="iterations"))
    text = orbit(0.5).replace("2.0 | output", "2.6 | output")

    result = read(tmp_path / "train.log", text, fmt=fmt)

    assert result.throughput is None
    assert "clock-mismatch" in codes(result)


def test_the_clock_is_shown_where_a_rate_has_few_digits(tmp_path: Path) -> None:
    result = read(tmp_path / "train.log", orbit(4.0))

    said = message(result, "unknown-format")
    assert "too few digits" in said
    assert "Time stamps are in" in said
    assert "(?P<rate>" not in said
