"""Several ranks or several runs in one log, and how a log ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.log_lines import imagenet, mmengine_epochs, torchtitan, torchvision, tsm
from tests.helpers.log_writer import BATCH, log
from tests.helpers.nvidia_lines import ngc_pytorch
from tests.helpers.paddle_lines import (
    paddleclas,
    paddleclas_dynamic,
    paddleseg,
    paddlevideo,
    plsc,
    plsc2022,
)


def read(tmp_path: Path, text: str, **options: object) -> LogResult:
    path = tmp_path / "x_gpu1_bs16.log"
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return extract(path, ParseOptions(**options))  # type: ignore[arg-type]


def codes(result: LogResult) -> set[str]:
    return {problem.code for problem in result.problems}


def message(result: LogResult, code: str) -> str:
    (found,) = [problem.message for problem in result.problems if problem.code == code]
    return found


@pytest.mark.parametrize("prints", [2, 3, 4])
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_step_that_comes_again_after_others_is_another_run(
    tmp_path: Path, prints: int, ranks: int
) -> None:
    run = [plsc(i, 0.5) for i in range(0, 100 * prints, 100) for _ in range(ranks)]

    result = read(tmp_path, "\n".join([*run, *run]))

    assert result.throughput is None
    assert "several-runs" in codes(result)


def test_a_rank_may_be_one_print_behind(tmp_path: Path) -> None:
    lines = [plsc(i, 0.5) for i in range(0, 150, 10) for _ in range(3)]
    # The third rank's word on step 40 comes after the first's on step 50.
    lines[14], lines[15] = lines[15], lines[14]

    result = read(tmp_path, "\n".join(lines))

    assert codes(result) == {"duplicate-ranks"}
    assert result.throughput == pytest.approx(BATCH / 0.5)


@pytest.mark.parametrize(
    "tag", ["[1,{}]<stdout>:{}".format, "[{}]<stderr>: {}".format, "[default{}]:{}".format]
)
def test_tagged_ranks_may_write_in_blocks(tmp_path: Path, tag: Callable[[int, str], str]) -> None:
    blocks = [
        "\n".join(tag(rank, plsc(i, 0.5)) for i in range(start, start + 250, 10))
        for start in range(0, 1000, 250)
        for rank in (2, 0, 1, 3)
    ]

    result = read(tmp_path, "\n".join(blocks))

    assert codes(result) == {"duplicate-ranks"}
    assert "4 times" in message(result, "duplicate-ranks")
    assert result.throughput == pytest.approx(BATCH / 0.5)


def test_a_rank_that_ends_early_is_not_the_one_to_go_by(tmp_path: Path) -> None:
    lines = [
        f"[1,{rank}]<stdout>:{plsc(i, 0.5)}"
        for i in range(150)
        for rank in range(2)
        if rank == 1 or i < 20
    ]

    result = read(tmp_path, "\n".join(lines))

    assert result.throughput == pytest.approx(BATCH / 0.5)
    assert result.iterations == 100


def test_two_records_on_one_line_are_two(tmp_path: Path) -> None:
    # A line end was lost between two ranks, or one rank's record was cut in two.
    lines = [
        f"[1,0]<stdout>:{ngc_pytorch(i, 0.5)}[1,0]<stdout>:{ngc_pytorch(i + 1, 1.0)}"
        for i in range(0, 150, 2)
    ]
    lines[3] = lines[3].replace("train.loss", "[1,0]<stdout>:train.loss", 1)

    result = read(tmp_path, "\n".join(lines))

    assert result.iterations == 100
    assert result.throughput == pytest.approx(BATCH / 0.75)


def test_estimates_of_running_means_are_of_the_rank_that_is_taken(tmp_path: Path) -> None:
    lines = [
        f"[1,{rank}]<stdout>:{paddleclas(i, 0.5 if rank == 0 else 0.8)}"
        for i in range(0, 150, 10)
        for rank in range(8)
    ]

    result = read(tmp_path, "\n".join(lines))

    assert result.estimates is not None
    assert result.estimates.mean_of_rates == pytest.approx(BATCH / 0.5)
    assert result.estimates.time_weighted == pytest.approx(BATCH / 0.5)


@pytest.mark.parametrize("first", [0, 4])
def test_the_last_loss_is_that_of_the_rank_that_is_counted(tmp_path: Path, first: int) -> None:
    # Pipeline stages but the last print a loss of -1.
    losses = {0: "-1.0000", 4: "6.2500"}
    lines = [
        f"[rank{rank}]:- root - INFO - step: {i:2}  loss: {losses[rank]}  tps: 7,234  mfu: 39.0%"
        for i in range(1, 150)
        for rank in sorted(losses, reverse=(first == 4) == (i < 50))
    ]

    assert read(tmp_path, "\n".join(lines)).loss_last == float(losses[first])


@pytest.mark.parametrize(
    "end",
    [
        "Killed",
        "run.sh: line 3: 4711 Killed                  python train.py",
        "Traceback (most recent call last):\n  ...\nRuntimeError: CUDA out of memory.",
        "slurmstepd: error: *** JOB 1 CANCELLED DUE TO SIGTERM ***",
    ],
)
def test_a_run_that_was_broken_off_is_truncated(tmp_path: Path, end: str) -> None:
    result = read(tmp_path, f"{log(torchvision)}{end}\n")

    assert "truncated" in codes(result)
    assert result.throughput == pytest.approx(BATCH / 0.5)


@pytest.mark.parametrize(
    ("writer", "one", "many"),
    [
        (paddleclas_dynamic, "[Epoch 1/1]", "[Epoch 1/300]"),
        (plsc2022, "[Epoch 1/1]", "[Epoch 1/300]"),
        (paddlevideo, "[  1/1  ]", "[  1/300]"),
    ],
)
def test_a_log_that_ends_epochs_before_its_last_is_truncated(
    tmp_path: Path, writer: Callable[[int, float], str], one: str, many: str
) -> None:
    whole, part = read(tmp_path, log(writer)), read(tmp_path, log(writer).replace(one, many))

    assert "truncated" not in codes(whole)
    assert "epoch 1 of 300" in message(part, "truncated")
    assert part.throughput == whole.throughput


@pytest.mark.parametrize(
    "writer", [imagenet, tsm, torchvision, paddleclas_dynamic, mmengine_epochs]
)
def test_a_log_that_ends_steps_before_its_epoch_is_truncated(
    tmp_path: Path, writer: Callable[[int, float], str]
) -> None:
    lines = [writer(i, 0.5) for i in range(9, 150, 10)]
    whole = read(tmp_path, "\n".join(lines))
    # One print is missing, or all of an epoch but its first.
    part = read(tmp_path, "\n".join(lines[:-1]))

    assert "truncated" not in codes(whole)
    assert "of the 150 of an epoch" in message(part, "truncated")


@pytest.mark.parametrize(
    "word", ["SIGTERM is handled", "Traceback (most recent call last):", "Killed 3 old workers"]
)
def test_words_before_the_records_say_nothing_of_the_end(tmp_path: Path, word: str) -> None:
    assert codes(read(tmp_path, f"{word}\n{log(torchvision)}")) == set()
    chatter = "words that fill the log and are no record of any format\n" * 4000
    assert codes(read(tmp_path, f"{log(torchvision)}{word}\n{chatter}{log(plsc)}")) == set()


def test_a_launchers_word_may_come_before_the_last_records(tmp_path: Path) -> None:
    lines = [torchvision(i, 0.5) for i in range(150)]
    lines[140:140] = ["LAUNCH INFO Terminating with signal 15"]

    assert codes(read(tmp_path, "\n".join(lines))) == {"truncated"}


@pytest.mark.parametrize("writer", [imagenet, tsm])
def test_iterations_too_short_for_the_digits_of_a_mean_are_not_measured(
    tmp_path: Path, writer: Callable[[int, float], str]
) -> None:
    result = read(tmp_path, log(writer, iterations=2000, seconds=0.01))

    assert result.throughput is None
    assert "too coarse" in message(result, "insufficient-data")


def test_the_end_that_was_asked_for_is_named(tmp_path: Path) -> None:
    result = read(tmp_path, log(paddleseg), until=20)

    assert result.throughput is None
    assert "steps 51 to 20" in message(result, "insufficient-data")


def test_rates_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    text = "".join(f"{plsc(i, 0.5)}\n" for i in range(2))
    text += "".join(plsc(i, 0.5).partition("qps:")[0] + "qps:nan\n" for i in range(2, 150))

    result = read(tmp_path, text)

    assert result.throughput is None
    assert "no print that has a rate" in message(result, "insufficient-data")


@pytest.mark.parametrize("late", [1, 3, 20])
@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("tag", ["", "{}: ", "[default{}]:"])
def test_a_rank_that_is_always_late_is_no_further_run(
    tmp_path: Path, late: int, ranks: int, tag: str
) -> None:
    """Without tags nothing says whose a line is; with the launcher's the log is read."""
    rounds = [
        (step + late * (rank == ranks - 1), rank, step)
        for step in range(90)
        for rank in range(ranks)
    ]
    lines = [f"{tag.format(rank)}{torchtitan(step, 0.5)}" for _, rank, step in sorted(rounds)]

    result = read(tmp_path, "\n".join(lines))

    if tag.startswith("["):
        assert result.throughput == pytest.approx(BATCH / 0.5)
        assert codes(result) == {"duplicate-ranks"}
    else:
        assert result.throughput is None
        assert "no tag says whose a line is" in message(result, "several-runs")


def test_runs_that_go_on_from_a_checkpoint_are_no_late_ranks(tmp_path: Path) -> None:
    lines = [
        torchtitan(step, 0.5) for begin in range(0, 300, 30) for step in range(begin, begin + 60)
    ]

    assert "10 runs" in message(read(tmp_path, "\n".join(lines)), "several-runs")
