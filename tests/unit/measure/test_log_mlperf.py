"""MLPerf's events: what they mean is in other events of the log."""

from __future__ import annotations

import io

import pytest

from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.log_lines import (
    mlperf_block,
    mlperf_event,
    mlperf_step_time,
    torchvision,
)
from tests.helpers.log_writer import BATCH, log


def read(text: str, *, block: int = 1 << 20, **options: object) -> LogResult:
    asked = ParseOptions(**options)  # type: ignore[arg-type]
    return extract_stream(io.BytesIO(f"{text}\n".encode()), "train.log", asked, block)


def codes(result: LogResult) -> set[str]:
    return {problem.code for problem in result.problems}


def test_blocks_are_read_where_no_event_has_a_rate() -> None:
    """The evaluation between two blocks is not in the time of either."""
    result = read(log(mlperf_block))

    assert result.throughput == pytest.approx(BATCH / 0.5)
    # Steps' own times go before the clock.
    both = "\n".join(f"{mlperf_block(i, 0.5)}\n{mlperf_step_time(i, 0.25)}" for i in range(150))
    assert read(both, skip=60).throughput == pytest.approx(BATCH / 0.25)


def test_a_rate_of_a_part_of_an_epoch_counts_no_steps() -> None:
    event = mlperf_event("tracked_stats", {"throughput": 512.5}, step=0.6999)

    result = read(event, skip=0)

    assert result.throughput is None
    assert result.whole_run == 512.5


def test_a_print_of_no_iterations_is_none() -> None:
    event = mlperf_event("tracked_stats", {"throughput": 512.5}, step=0)

    assert codes(read(event, skip=0)) == {"insufficient-data"}


def test_an_evaluation_within_a_block_is_not_training() -> None:
    head = [mlperf_event("global_batch_size", BATCH)]
    lines, at = [mlperf_event("block_start", None, 0, samples_count=0)], 0
    for i in range(1, 16):
        at += 5000
        lines.append(mlperf_event("eval_start", None, at, samples_count=10 * BATCH * i))
        at += 7000
        lines.append(mlperf_event("eval_stop", None, at, samples_count=10 * BATCH * i))

    result = read("\n".join(head + lines))

    assert result.throughput == pytest.approx(BATCH / 0.5)
    assert result.iterations == 100


def test_a_block_of_epochs_says_nothing_of_samples() -> None:
    lines = [mlperf_event("global_batch_size", 4), mlperf_event("max_sequence_length", 512)]
    for i in range(150):
        lines.append(mlperf_event("block_start", None, 9 * i, first_epoch_num=i, epoch_count=1))
        lines.append(mlperf_event("block_stop", None, 9 * i + 9, first_epoch_num=i))

    assert codes(read("\n".join(lines))) == {"unknown-format"}


def test_epochs_may_be_called_by_their_samples() -> None:
    lines = [
        mlperf_event("tracked_stats", {"throughput": 32.0}, epoch_num=BATCH * i)
        for i in range(1, 150)
    ]

    assert read("\n".join(lines)).throughput == pytest.approx(32.0)


def test_a_rate_without_a_step_is_of_the_whole_run() -> None:
    event = mlperf_event("tracked_stats", {"throughput": 32.0, "epoch_num": 9}, step=[2, 351])

    result = read(event + "\n")

    assert (result.throughput, result.whole_run) == (None, 32.0)
    assert codes(result) == {"insufficient-data"}


@pytest.mark.parametrize("block", [1 << 20, 1 << 10])
def test_a_run_that_starts_again_is_another_one(block: int) -> None:
    run = f"{mlperf_event('run_start', None)}\n{log(mlperf_block)}"

    assert read(run, block=block).throughput == pytest.approx(BATCH / 0.5)
    assert codes(read(run + run, block=block)) == {"several-runs"}


def test_the_batch_may_be_blocks_before_the_first_record() -> None:
    head, _, rest = log(mlperf_step_time).partition("\n")
    text = f"{head}\n{'NCCL INFO Connected all rings' * 9}\n" + "set up\n" * 500 + rest

    assert read(text, block=1024).throughput == pytest.approx(BATCH / 0.5)


def test_the_global_batch_needs_no_world_size() -> None:
    """Lines of torchvision within a log of MLPerf."""
    head = mlperf_event("global_batch_size", BATCH)

    result = read(f"{head}\n{log(torchvision)}")

    assert result.format == "torchvision"
    assert result.throughput == pytest.approx(BATCH / 0.5)
