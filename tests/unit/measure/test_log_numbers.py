"""Which text is a number, and which number a print stands for."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.measure.logs.declare import NUMBER
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern
from tests.unit.measure.test_log_scale import codes, message, read

MILLISECONDS = r"iter (?P<step>\d+): time (?P<milliseconds>\S+)ms"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b"500.0", b"500.0"),
        (b"13,172 tok", b"13,172"),
        (b"1,234,567.5", b"1,234,567.5"),
        (b"12, then", b"12"),
        (b"12.5,3", b"12.5"),
        (b"-3.2e-05", b"-3.2e-05"),
        (b"500,0", None),
        (b"0,512", None),
        (b"1,2345", None),
        (b"1234,567", None),
        (b"12,345,67", None),
    ],
)
def test_a_comma_is_a_mark_of_thousands_before_three_digits_only(
    text: bytes, number: bytes | None
) -> None:
    match = re.match(NUMBER, text)

    assert (match and match[0]) == number


def test_a_decimal_comma_gives_no_rate(tmp_path: Path) -> None:
    lines = (
        f" iteration {i}/ 150 | elapsed time per iteration (ms): 500,0 | global batch size: 16 |"
        for i in range(1, 151)
    )

    result = read(tmp_path / "train.log", "\n".join(lines))

    assert result.throughput is None


def by_iteration(path: Path, times: list[float], every: int = 10) -> LogResult:
    fmt = format_of_pattern(pattern(MILLISECONDS, averaging="iteration"))
    path.write_text(
        "".join(f"iter {every * i}: time {ms:.2f}ms\n" for i, ms in enumerate(times, start=1)),
        encoding="utf-8",
    )
    options = ParseOptions(fmt=fmt, batch_size_per_device=1, world_size=1)
    return extract(path, options)


def test_a_slow_print_does_not_stand_for_the_iterations_before_it(tmp_path: Path) -> None:
    times = [500.0] * 50
    times[19] = times[39] = 5000.0

    result = by_iteration(tmp_path / "train.log", times)

    assert result.throughput == pytest.approx(2)
    assert result.estimates is not None
    # 450 iterations, of which two took 5 s.
    assert result.estimates.time_weighted == pytest.approx(450 / (448 * 0.5 + 2 * 5))
    assert "2 prints" in message(result, "left-out")


def test_no_number_is_given_where_the_ways_to_count_are_far_apart(tmp_path: Path) -> None:
    times = [36000.0 if i % 10 == 9 else 500.0 for i in range(30)]

    result = by_iteration(tmp_path / "train.log", times)

    assert result.throughput is None
    assert "1.0" in message(result, "averages-differ")
    assert "median 2" in message(result, "averages-differ")


def test_where_each_iteration_is_printed_a_slow_one_counts(tmp_path: Path) -> None:
    times = [500.0] * 100
    times[70] = 5000.0

    result = by_iteration(tmp_path / "train.log", times, every=1)

    assert result.throughput == pytest.approx(50 / (49 * 0.5 + 5))
    assert "left-out" not in codes(result)


def bar(done: int) -> str:
    return f"  1%|#  | {done}/200 [{done // 60:02d}:{done % 60:02d}<03:00,  1.00s/it]\n"


def account(samples: str, steps: str, epoch: str = "1.0") -> str:
    return (
        f"{{'train_runtime': 6000.0, 'train_samples_per_second': {samples}, "
        f"'train_steps_per_second': {steps}, 'train_loss': 1.2, 'epoch': {epoch}}}\n"
    )


LOSS = "{'loss': 2.0, 'learning_rate': 1e-05, 'epoch': 0.1}\n"


def test_the_trainers_own_account_says_the_batch_of_an_update(tmp_path: Path) -> None:
    bars = "".join(bar(done) for done in range(1, 201))

    result = read(tmp_path / "train.log", bars + LOSS + bar(200) + account("0.264", "0.033"))

    assert result.throughput == pytest.approx(8, rel=0.02)


@pytest.mark.parametrize(
    ("samples", "steps", "epoch"),
    [
        ("294.0", "0.076", "1.0"),
        # A smaller last batch in each of many epochs leaves it open.
        ("62.5", "1.000", "100.0"),
        ("0.264", "0.0", "1.0"),
    ],
)
def test_an_account_of_too_few_digits_says_no_batch(
    tmp_path: Path, samples: str, steps: str, epoch: str
) -> None:
    bars = "".join(bar(done) for done in range(1, 201))
    text = bars + LOSS + bar(200) + account(samples, steps, epoch)

    result = read(tmp_path / "train.log", text)

    assert result.throughput is None
    assert "unknown-scale" in codes(result)


def test_mlperf_says_the_batch_of_all_devices(tmp_path: Path) -> None:
    event = ':::MLLOG {"key": "global_batch_size", "value": 256, "metadata": {}}\n'
    lines = (
        f"Epoch: [0]  [{i:4d}/150]  eta: 0:01:00  loss: 1.5  time: 0.5000\n" for i in range(150)
    )

    result = read(tmp_path / "train.log", event + "".join(lines))

    assert result.throughput == pytest.approx(512)


def test_a_line_that_two_handlers_print_is_not_of_two_ranks(tmp_path: Path) -> None:
    fmt = format_of_pattern(pattern(MILLISECONDS))
    text = "".join(f"A iter {i}: time 500ms\nB iter {i}: time 500ms\n" for i in range(150))

    result = read(tmp_path / "train.log", text, fmt=fmt, batch_size_per_device=1, world_size=1)

    assert result.throughput == pytest.approx(2)
    assert "two handlers" in message(result, "duplicate-ranks")


#: Texts that begin as a number and mean another one.
PARTS = [
    "1.048.576",
    "1_048_576",
    "1\u202f048\u202f576",
    "1\u00a0048",
    "1'048'576",
    "1048.6k",
    "1.05M",
]


@pytest.mark.parametrize("text", PARTS)
@pytest.mark.parametrize(
    "line",
    [
        "step {i:05d}/00150 (1.00%) | loss: 5.1 | dt: 500.00ms | tok/sec: {text} | mfu: 48.21",
        "[rank0]:step: {i}  loss:  8.1  memory: 33.90GiB(42.8%)  tps: {text}  mfu: 41.20%",
        "[2023-10-31 08:58:33,237] [INFO] [timer.py:260:stop] epoch=0/micro_step={i}/"
        "global_step={i}, RunningAvgSamplesPerSec=1.5, CurrSamplesPerSec={text}, "
        "MemAllocated=0.0GB",
    ],
)
def test_the_begin_of_a_number_is_none(tmp_path: Path, line: str, text: str) -> None:
    lines = "\n".join(line.format(i=i, text=text) for i in range(1, 151))

    result = read(tmp_path / "train.log", lines, world_size=1)

    assert result.throughput is None
    refusal = message(result, "unknown-format")
    assert "(?P<rate>" not in refusal, "no pattern is shown that reads a part of a number"


@pytest.mark.parametrize("said", ["491'520", "491.520", "491_520"])
def test_the_begin_of_the_tokens_of_an_iteration_is_none(tmp_path: Path, said: str) -> None:
    lines = "\n".join(f"iter {i}: loss 5.4, time 500.00ms, mfu 12.3%" for i in range(150))

    result = read(tmp_path / "train.log", f"tokens per iteration will be: {said}\n{lines}")

    assert codes(result) == {"unknown-scale"}


def test_two_counts_of_tokens_are_two_runs(tmp_path: Path) -> None:
    """One that was resumed with another batch goes on at the next step."""
    said = "tokens per iteration will be: "
    lines = [f"iter {i}: loss 5.4, time 500.00ms, mfu 12.3%" for i in range(200)]
    text = "\n".join([f"{said}491,520", *lines[:100], f"{said}245,760", *lines[100:]])

    result = read(tmp_path / "train.log", text)

    assert result.throughput is None
    assert "245,760" in message(result, "several-runs")


@pytest.mark.parametrize("resumed", [195, 200, 1000])
def test_a_clock_that_begins_anew_with_a_resumed_run_is_not_a_fast_stretch(
    tmp_path: Path, resumed: int
) -> None:
    """LLaMA-Factory's: the steps go on."""

    def line(step: int, elapsed_s: int) -> str:
        clock = f"{elapsed_s // 3600}:{elapsed_s // 60 % 60:02d}:{elapsed_s % 60:02d}"
        steps = {"current_steps": step, "total_steps": 3 * resumed, "loss": 1.77, "epoch": 0.2}
        return json.dumps({**steps, "elapsed_time": clock, "remaining_time": "0:00:00"})

    lines = [line(step, 2 * step) for step in range(5, resumed + 1, 5)]
    steps = range(resumed + 5, 3 * resumed + 1, 5)
    lines += [line(step, 2 * (step - resumed)) for step in steps]

    result = read(
        tmp_path / "trainer_log.jsonl", "\n".join(lines), batch_size_per_device=8, world_size=1
    )

    assert result.throughput == pytest.approx(4, rel=0.02)
    assert codes(result) == {"running-mean"}


def test_slow_prints_that_the_log_announces_are_evaluations(tmp_path: Path) -> None:
    prints = [(i, 8020 if i % 250 == 0 else 20) for i in range(0, 1000, 10)]
    start = "tokens per iteration will be: 16,384\n"
    evaluation = "step {}: train loss 9.0, val loss 9.0\n"
    line = "iter {}: loss 9.0, time {}.00ms, mfu 38.10%\n"

    text = "".join(
        (evaluation.format(i) if ms > 20 else "") + line.format(i, ms) for i, ms in prints
    )
    silent = "".join(line.format(i, ms) for i, ms in prints)

    result = read(tmp_path / "train.log", start + text)

    assert result.throughput == pytest.approx(16384 / 0.02)
    assert "left-out" in codes(result)
    assert "averages-differ" in codes(read(tmp_path / "silent.log", start + silent))


MEAN = {
    "seconds": (r"step (?P<step>\d+): mean (?P<seconds>\S+) each", 1.0),
    "milliseconds": (r"step (?P<step>\d+): mean (?P<milliseconds>\S+) each", 1000.0),
    "rate": (r"step (?P<step>\d+): mean (?P<rate>\S+) each", 1.0),
}


@pytest.mark.parametrize("group", MEAN)
@pytest.mark.parametrize(("begin", "first"), [(0, 0), (0, 9), (1, 1), (1, 10)])
@pytest.mark.parametrize("slow_s", [0.5, 100.0])
def test_a_users_running_mean_is_taken_apart_from_its_first_step_on(
    tmp_path: Path, group: str, begin: int, first: int, slow_s: float
) -> None:
    regex, factor = MEAN[group]
    every = 10 if first >= 9 else 1
    total, lines = 0.0, []
    for i in range(400):
        total += 0.5 if i else slow_s
        mean = (i + 1) / total if group == "rate" else total / (i + 1) * factor
        if (i + begin - first) % every == 0 and i + begin >= first:
            lines.append(f"step {i + begin}: mean {mean:.5f} each")
    fmt = format_of_pattern(pattern(regex, averaging="running"))

    options = {"batch_size_per_device": 1, "world_size": 1}
    result = read(tmp_path / "train.log", "\n".join(lines), fmt=fmt, **options)

    assert result.throughput == pytest.approx(2, rel=0.03)


@pytest.mark.parametrize("group", MEAN)
def test_a_users_running_mean_of_few_digits_gives_no_number(tmp_path: Path, group: str) -> None:
    regex, _ = MEAN[group]
    text = "".join(f"step {i}: mean 2 each\n" for i in range(400))
    fmt = format_of_pattern(pattern(regex, averaging="running"))

    result = read(tmp_path / "train.log", text, fmt=fmt, batch_size_per_device=1, world_size=1)

    assert "too coarse" in message(result, "insufficient-data")


def deepspeed(current: float, mean: float, every: int) -> str:
    """Return prints whose mean has a first iteration of 60 s, and all others by ``mean``."""
    lines = []
    for step in range(every, 801, every):
        running = 64 * step / (60 + 64 * (step - 1) / mean)
        lines.append(
            f"[INFO] [timer.py:260:stop] epoch=0/micro_step={step}/global_step={step}, "
            f"RunningAvgSamplesPerSec={running:.4f}, CurrSamplesPerSec={current}, MemAllocated=1GB"
        )
    return "\n".join(lines)


@pytest.mark.parametrize("every", [10, 1])
@pytest.mark.parametrize("mean", [22.9, 50.0, 150.0])
def test_a_log_whose_own_mean_is_another_gives_no_number(
    tmp_path: Path, mean: float, every: int
) -> None:
    result = read(tmp_path / "train.log", deepspeed(64.0, mean, every))

    assert result.throughput is None
    assert f"is {mean:g}" in message(result, "averages-differ").replace(".0:", ":")


@pytest.mark.parametrize("every", [10, 1])
def test_a_slow_begin_is_in_the_mean_and_contradicts_nothing(tmp_path: Path, every: int) -> None:
    result = read(tmp_path / "train.log", deepspeed(64.0, 63.0, every))

    assert result.throughput == pytest.approx(64)
    assert not codes(result)
