"""What versions of one program print apart, and lines that look like records and are none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.log_lines import (
    deepspeed,
    deepspeed2022,
    huggingface,
    lightning,
    lightning_2020,
    megatron,
    mmcv_json,
    mmengine,
    mmseg,
    torchtitan,
    torchvision,
)
from tests.helpers.log_writer import BATCH, Writer, log
from tests.helpers.paddle_lines import paddleclas_dynamic, paddlevideo, plsc2022


def read(path: Path, text: str) -> LogResult:
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return extract(path, ParseOptions())


def codes(result: LogResult) -> set[str]:
    return {problem.code for problem in result.problems}


@pytest.fixture
def named(tmp_path: Path) -> Path:
    return tmp_path / "x_gpu1_bs16.log"


@pytest.fixture
def nameless(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


def test_torchtitan_validation_is_no_training(nameless: Path) -> None:
    lines = ["[titan] - INFO - Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]"]
    for i in range(150):
        # Ranks print without a tag, each with its own clock.
        lines += [torchtitan(i, 0.1)] * 8
        slow = torchtitan(i, 9.0).replace("step:", "validate step:")
        lines += [slow] * (8 if i % 10 == 9 else 0)

    result = read(nameless, "\n".join(lines))

    assert result.world_size == 8
    assert result.throughput == pytest.approx(8 * BATCH / 0.1)


def test_the_same_line_counts_one_device_or_all_by_its_program(tmp_path: Path) -> None:
    path = tmp_path / "x_gpu8_bs16.log"

    paddleclas, plsc = (read(path, log(w)) for w in (paddleclas_dynamic, plsc2022))

    assert paddleclas.throughput == pytest.approx(8 * BATCH / 0.5)
    assert plsc.throughput == pytest.approx(BATCH / 0.5)


@pytest.mark.parametrize("restarts", [True, False])
def test_the_iteration_restarts_with_an_epoch_or_does_not(named: Path, restarts: bool) -> None:
    lines = []
    for epoch in range(1, 9):
        for i in range(9, 50, 10):
            line = mmcv_json(i if restarts else 50 * (epoch - 1) + i, 0.5)
            lines.append(line.replace('"epoch": 1', f'"epoch": {epoch}'))
        lines.append('{"mode": "val", "epoch": 1, "iter": 9, "data_time": 0.1, "time": 9.0}')

    result = read(named, "\n".join(lines))

    assert codes(result) == set()
    assert result.iterations == 350
    assert result.throughput == pytest.approx(BATCH / 0.5)


EVALUATED = {
    mmseg: "2022-02-10 06:23:24,873 - mmseg - INFO - Iter(val) [500]\taAcc: 0.7, mIoU: 0.3",
    mmcv_json: '{"mode": "val", "epoch": 1, "iter": 500, "lr": 0.01, "aAcc": 0.7, "mIoU": 0.3}',
}


@pytest.mark.parametrize("writer", EVALUATED)
def test_what_evaluation_took_is_no_wait_for_data(named: Path, writer: Writer) -> None:
    lines = []
    for i in range(9, 400, 10):
        after = i % 100 == 9 and i > 9
        line = writer(i, 3.5 if after else 0.5)
        # The timer takes all since the iteration before for data.
        wait = re.search(r'data_time"?: ([\d.]+)', line)
        assert wait is not None
        lines.append(line.replace(wait[1], "3.001") if after else line)
        if i % 100 == 99:
            lines.append(EVALUATED[writer])

    result = read(named, "\n".join(lines))

    assert codes(result) <= {"truncated", "left-out"}
    assert result.throughput == pytest.approx(BATCH / 0.5)
    assert result.data_wait_share == pytest.approx(0.002, rel=0.3)
    # An evaluation after every print leaves nothing.
    every = "\n".join(f"{line}\n{EVALUATED[writer]}" for line in lines)
    assert read(named, every).throughput is None


def test_mmengine_validation_is_no_training(named: Path) -> None:
    lines = [mmengine(i, 0.5) for i in range(9, 150, 10)]
    lines[7:7] = [mmengine(i, 9.0).replace("(train)", "(val)") for i in range(9, 150, 10)]

    config = "GPU number: 1\ntrain_dataloader = dict(\n    batch_size=4,"

    result = read(named, "\n".join([config, *lines]))

    assert result.throughput == pytest.approx(4 / 0.5)


def test_a_bar_that_goes_on_in_validation_counts_until_then(named: Path) -> None:
    lines, at = [], 0.0
    for epoch in range(3):
        at = 0.0
        for i in range(130):
            at += 1.0 if i < 100 else 0.1
            line = lightning(i, at / (i + 1)).replace("Epoch 0", f"Epoch {epoch}")
            lines += [line, "Validating:  10%|#  | 1/30 [00:00<00:03, 9.9it/s]"][: 1 + (i >= 99)]

    result = read(named, "\n".join(lines))

    assert result.throughput == pytest.approx(BATCH, rel=0.01)
    assert result.iterations == 250


def test_a_bar_drawn_twice_is_not_that_of_two_ranks(named: Path) -> None:
    result = read(named, log(lightning_2020, seconds=1.0))

    assert codes(result) == {"running-mean"}


TRAINER = """***** Running training *****
  Instantaneous batch size per device = 8
  Total train batch size (w. parallel, distributed & accumulation) = 1,024
  Gradient Accumulation steps = 4
  Total optimization steps = 150
"""


def huggingface_bar(done: int, total: int, elapsed: int) -> str:
    return f"  1%|    | {done}/{total} [{elapsed // 60:02d}:{elapsed % 60:02d}<00:05,  9.17it/s]"


def test_a_trainers_own_account_of_its_batches(nameless: Path) -> None:
    result = read(nameless, TRAINER + log(huggingface, seconds=1.0))

    assert (result.world_size, result.batch_size_per_device) == (32, 32)
    assert result.throughput == pytest.approx(1024)


def test_evaluation_has_a_bar_of_its_own(nameless: Path) -> None:
    evaluation = "\n".join(huggingface_bar(i, 30, i) for i in range(1, 31))
    before = "\n".join(huggingface_bar(i, 400, i) for i in range(1, 401))
    lines, at = [], 0
    for i in range(150):
        at += 1
        lines.append(huggingface_bar(i + 1, 150, at))
        if i % 50 == 49:
            lines += ["{'loss': 2.07, 'epoch': 0.04}", evaluation, "{'eval_loss': 2.0}"]
            at += 30
            lines.append(huggingface_bar(i + 1, 150, at))

    result = read(nameless, "\n".join([before, TRAINER, *lines]))

    assert result.throughput == pytest.approx(1024)
    # Evaluation's time is in the mean of one iteration after it, which is left out.
    assert 90 <= result.iterations <= 99
    assert result.loss_last == 2.07


def test_a_bar_alone_may_be_of_anything(named: Path) -> None:
    result = read(named, "\n".join(huggingface_bar(i, 400, i) for i in range(1, 401)))

    assert result.throughput is None
    assert codes(result) >= {"unknown-format"}


def test_bars_do_not_outvote_records(named: Path) -> None:
    bars = "\n".join(huggingface_bar(i, 400, i) for i in range(1, 401))

    result = read(named, f"{bars}\n{log(mmseg, iterations=5)}")

    assert result.format == "mmseg"


def test_a_running_mean_over_epochs_whose_counter_restarts_is_refused(named: Path) -> None:
    second = log(deepspeed2022).replace("] 0/", "] 1/")

    result = read(named, log(deepspeed2022) + second)

    assert result.throughput is None
    assert "several-runs" in codes(result)


def test_one_iteration_in_ten_does_not_hide_the_wait_for_data(named: Path) -> None:
    lines = [
        f"Epoch: [0][{i:4d}/5005]\tTime  0.427 ( 2.773)\tData  0.000 ( 2.393)\tLoss 6.9e+00 (7.0)"
        for i in range(0, 400, 10)
    ]

    result = read(named, "\n".join(lines))

    assert result.throughput == pytest.approx(BATCH / 2.773)
    assert result.data_wait_share == pytest.approx(2.393 / 2.773)
    assert "data-bound" in codes(result)


def test_a_print_of_one_iteration_stands_for_those_since_the_last(named: Path) -> None:
    lines = []
    for epoch in range(1, 9):
        # Every epoch starts slow, and that is the first of its prints.
        for i in range(0, 75, 10):
            line = paddlevideo(i, 9.0 if i == 0 else 1.0)
            lines.append(line.replace("[  1/1  ]", f"[  {epoch}/8  ]"))

    result = read(named, "\n".join(lines))

    assert result.throughput == pytest.approx(BATCH * 71 / (9 + 70), rel=0.01)


@pytest.mark.parametrize(
    ("text", "iterations"),
    [
        (deepspeed(5009, 0.4), 1),
        (torchtitan(5009, 0.4), 1),
        ("\n".join(deepspeed(i, 0.4) for i in range(5009, 5050, 10)), 50),
        ("\n".join(huggingface(i, 1.0) for i in range(100, 150)), 50),
    ],
)
def test_a_resumed_run_has_its_own_warm_up(named: Path, text: str, iterations: int) -> None:
    result = read(named, text)

    assert result.throughput is None
    (sentence,) = [p.message for p in result.problems if p.code == "insufficient-data"]
    assert sentence.startswith(f"{iterations} iterations")


def test_a_resumed_runs_bar_counts_from_where_it_began(named: Path) -> None:
    result = read(named, "\n".join(huggingface(i, 1.0) for i in range(50, 150)))

    # RateSeries of five seconds are joined, and one of them straddles the warm-up.
    assert 45 <= result.iterations <= 50
    assert result.throughput == pytest.approx(BATCH)


def test_two_programs_in_one_log_are_not_mixed(nameless: Path) -> None:
    lines = [f"{deepspeed(i, 0.4)}\n{megatron(i, 0.5)}" for i in range(150)]

    result = read(nameless, "\n".join(lines))

    assert result.format == "megatron"
    assert result.throughput == pytest.approx(BATCH / 0.5)


def test_megatron_without_a_batch_is_not_guessed(nameless: Path) -> None:
    result = read(nameless, log(megatron).replace("global batch size:    16 |", ""))

    assert result.throughput is None
    assert [p.message for p in result.problems if "says the batch size" in p.message]


@pytest.mark.parametrize(
    ("line", "world"),
    [
        ("Namespace(batch_size=16, world_size=1, distributed=True, dist_url='x', rank=0)", 1),
        ("Namespace(batch_size=16, distributed=True, gpu=0, world_size=8)", 8),
        # What was asked for, before it was known.
        ("Namespace(batch_size=16, world_size=2, distributed=False)", None),
        ("gpu_ids = range(0, 4)", 4),
        ("All distributed processes registered. Starting with 16 processes", 16),
        ("[INFO] [config.py:745:print]   world_size ................... 2", 2),
        ("[rank0]:Building 1-D device mesh with ['dp_shard'], [64]", 64),
        (
            "- INFO - Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=4, "
            "cp=1, tp=2, ep=4, etp=1",
            16,
        ),
    ],
)
def test_world_sizes_as_programs_say_them(nameless: Path, line: str, world: int | None) -> None:
    result = read(nameless, f"{line}\n{log(torchvision)}")

    assert result.world_size == world
