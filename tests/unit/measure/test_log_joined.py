"""Records over several lines, and clocks that run on."""

from __future__ import annotations

import io

import pytest

from pytest_dlperf.measure.logs import registry
from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.language_lines import composer, llamafactory, modded_nanogpt, olmo, swift
from tests.helpers.log_writer import BATCH, log
from tests.helpers.vision_lines import informer


def read(text: str, *, block: int = 1 << 20, **options: object) -> LogResult:
    asked = ParseOptions(world_size=1, batch_size_per_device=BATCH, **options)  # type: ignore[arg-type]
    return extract_stream(io.BytesIO(text.encode()), "train.log", asked, block)


def codes(result: LogResult) -> set[str]:
    return {problem.code for problem in result.problems}


@pytest.mark.parametrize("block", [64, 200, 1000, 1 << 20])
def test_a_record_may_be_over_the_end_of_a_block(block: int) -> None:
    result = read(log(olmo), block=block, fmt=registry.named("olmo"))

    assert result.throughput == pytest.approx(BATCH / 0.5)
    assert result.iterations == 100
    assert result.loss_last == 7.747


def test_lines_of_tagged_ranks_belong_to_the_step_of_their_rank() -> None:
    lines = []
    for i in range(150):
        both = [composer(i, 0.5).split("\n"), composer(i, 0.5).split("\n")]
        lines += [
            f"[1,{rank}]<stdout>:{text}"
            for texts in zip(*both, strict=True)
            for rank, text in enumerate(texts)
        ]

    result = read("\n".join(lines))

    assert result.format == "composer"
    assert result.throughput == pytest.approx(BATCH / 0.5)
    assert "duplicate-ranks" in codes(result)


def test_a_rate_before_the_first_step_belongs_to_none() -> None:
    text = "    throughput/device/tokens_per_second=9,999\n" * 30 + log(olmo)

    assert read(text).throughput == pytest.approx(BATCH / 0.5)


def test_a_step_without_its_line_has_no_rate() -> None:
    lines = [olmo(i, 0.5) for i in range(150)]
    lines[100] = lines[100].split("\n")[0]

    result = read("\n".join(lines))

    assert result.throughput == pytest.approx(BATCH / 0.5)
    assert result.iterations == 100


def test_lines_of_several_steps_alone_are_not_a_format() -> None:
    """Parts of a record may be of any program."""
    assert codes(read(" time: 0.5  data_time: 0.1\n" * 99)) == {"unknown-format"}


def test_a_clock_that_is_set_back_shows_nothing_there() -> None:
    before = [modded_nanogpt(i, 9.0) for i in range(10)]
    after = [modded_nanogpt(i, 0.5).replace("train_time:", "train_time:") for i in range(10, 150)]

    result = read("\n".join([*before, *after]), skip=20)

    assert result.throughput == pytest.approx(BATCH / 0.5)


def test_the_first_print_of_an_epoch_has_the_validation_in_it() -> None:
    lines = []
    for epoch in range(1, 6):
        for i in range(9, 60, 10):
            seconds = 4.5 if epoch > 1 and i == 9 else 0.5
            lines.append(informer(i, seconds).replace("epoch: 1", f"epoch: {epoch}"))
        lines.append(f"Epoch: {epoch} cost time: 99.0")

    result = read("\n".join(lines))

    assert result.throughput == pytest.approx(BATCH / 0.5)
    assert "unstable" not in codes(result)


@pytest.mark.parametrize("writer", [llamafactory, swift])
def test_an_evaluation_is_left_out_of_a_running_mean(writer: object) -> None:
    assert callable(writer)
    evaluated = {
        llamafactory: '{"current_steps": 100, "total_steps": 150, "eval_loss": 1.5}',
        swift: "{'eval_loss': 1.5, 'global_step/max_steps': '100/150'}",
    }
    lines = []
    for i in range(9, 150, 10):
        done = i + 1
        # The clock goes on through an evaluation of 90 seconds.
        lines.append(writer(i, 1.0 + (90 / done if done > 100 else 0)))
        lines += [evaluated[writer]] if done == 100 else []  # type: ignore[index]

    result = read("\n".join(lines))

    assert result.throughput == pytest.approx(BATCH, rel=0.03)


def test_a_days_clock_is_read() -> None:
    line = '{"current_steps": 9, "total_steps": 10, "lr": 1, "elapsed_time": "2 days, 1:00:09"}'

    record = registry.named("llamafactory").parse(line.encode())

    assert record is not None
    assert record.seconds == pytest.approx((49 * 3600 + 9) / 9)
