"""Progress bars of one log: which is training's, wherever its words are."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from pytest_dlperf.measure.logs import registry
from pytest_dlperf.measure.logs.extract import LogResult, extract, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions

#: Seconds of an update, and of a batch of evaluation.
TRAIN, EVALUATE = 1.0, 0.25
UPDATES, BATCHES = 300, 400
BATCH = 16
LOSS = "{'loss': 2.07, 'grad_norm': 1.1, 'learning_rate': 4e-05, 'epoch': 0.33}"
BEGINS = "***** Running training *****"
STEPS = f"  Total optimization steps = {UPDATES:,}"
EVALUATION = "***** Running Evaluation *****"


OPTIONS = ParseOptions(batch_size_per_device=BATCH, world_size=1)


def bar(done: int, total: int, seconds: float) -> str:
    clock = f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
    return f"{100 * done // total:3d}%|##   | {done}/{total} [{clock}<00:59,  4.00it/s]"


def training(since: int = 1, until: int = UPDATES, aside: float = 0.0) -> list[str]:
    return [bar(i, UPDATES, TRAIN * i + aside) for i in range(since, until + 1)]


def evaluation() -> list[str]:
    # The first state of an evaluation's bar is drawn with its second batch.
    return [bar(i, BATCHES, EVALUATE * i) for i in range(2, BATCHES + 1)]


def account(seconds: float) -> str:
    return f"{{'train_runtime': {seconds}, 'train_samples_per_second': 15.9, 'epoch': 1.0}}"


def read(tmp_path: Path, lines: list[str], **options: object) -> LogResult:
    path = tmp_path / "x_gpu1_bs16.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return extract(path, ParseOptions(**options))  # type: ignore[arg-type]


def codes(result: LogResult) -> set[str]:
    return {problem.code for problem in result.problems}


def is_of_training(result: LogResult) -> bool:
    return result.throughput == pytest.approx(BATCH / TRAIN, rel=0.01)


@pytest.mark.parametrize(
    ("head", "between", "seconds"),
    [
        ([BEGINS, STEPS], [], 1e6),
        ([BEGINS], [], 1e6),
        ([], [EVALUATION], 1e6),
        ([], [], UPDATES * TRAIN + 1),
    ],
    ids=["its steps", "its beginning", "the other's beginning", "the account of its time"],
)
def test_words_that_come_last_count_for_training(
    tmp_path: Path, head: list[str], between: list[str], seconds: float
) -> None:
    end = [LOSS, LOSS, account(seconds)]

    result = read(tmp_path, [*head, *training(), *between, *evaluation(), *end])

    assert is_of_training(result)
    assert result.loss_last == 2.07


def test_a_bar_that_goes_on_after_another_is_trainings(tmp_path: Path) -> None:
    took = EVALUATE * BATCHES
    second = training(151, aside=took)

    result = read(tmp_path, [*training(until=150), *evaluation(), *second, *evaluation(), LOSS])

    assert is_of_training(result)


def test_a_loss_within_a_bar_shows_whose_it_is(tmp_path: Path) -> None:
    prepared = [bar(i, 50, i) for i in range(1, 51)]
    parts = [*training(until=100), LOSS, *training(101)]

    result = read(tmp_path, [*prepared, *parts, *evaluation()])

    assert is_of_training(result)


def test_nothing_shows_which_bar_is_trainings(tmp_path: Path) -> None:
    lines = [*training(), *evaluation(), LOSS]

    for options in ({}, {"world_size": 1}):
        result = read(tmp_path, lines, **options)
        assert result.throughput is None
        assert "unknown-format" in codes(result)
        assert any("which is training's" in problem.message for problem in result.problems)


def test_steps_that_no_bar_has_are_of_none_here(tmp_path: Path) -> None:
    result = read(tmp_path, [STEPS, *evaluation(), LOSS])

    assert result.throughput is None
    assert "unknown-format" in codes(result)


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


def test_what_can_be_read_once_only_is_not_guessed(tmp_path: Path) -> None:
    prepared = [bar(i, 50, i) for i in range(1, 51)]
    lines = [*prepared, BEGINS, STEPS, *training(), LOSS, ""]

    pipe = Pipe("\n".join(lines).encode())
    once = extract_stream(pipe, "x_gpu1_bs16", ParseOptions())

    assert once.throughput is None
    assert is_of_training(read(tmp_path, lines))


def test_a_run_killed_before_its_words_were_written(tmp_path: Path) -> None:
    result = read(tmp_path, [BEGINS, STEPS, *training(until=250)])

    assert is_of_training(result)
    assert "truncated" in codes(result)


@pytest.mark.parametrize("until", [UPDATES, 250])
def test_a_loss_on_the_bars_own_line(tmp_path: Path, until: int) -> None:
    lines = training(until=until)
    lines[49::50] = [line + LOSS for line in lines[49::50]]

    result = read(tmp_path, lines)

    assert is_of_training(result)
    assert result.loss_last == 2.07
    assert ("truncated" in codes(result)) is (until < UPDATES)


@pytest.mark.parametrize("loss", ["nan", "'nan'", "inf"])
def test_a_loss_on_the_bars_own_line_may_be_lost(tmp_path: Path, loss: str) -> None:
    lines = training()
    lines[-1] += LOSS.replace("2.07", loss)

    assert "loss-not-finite" in codes(read(tmp_path, lines))


def test_a_run_that_is_accounted_on_the_bars_own_line(tmp_path: Path) -> None:
    lines = training()
    lines[-1] += account(UPDATES * TRAIN)

    result = read(tmp_path, lines)

    assert is_of_training(result)
    assert result.whole_run == 15.9


def test_a_resumed_training_in_one_log_is_refused(tmp_path: Path) -> None:
    first, second = training(until=150), training(151, aside=-150)

    result = read(tmp_path, [*first, LOSS, "Killed", *second, LOSS])

    assert result.throughput is None
    assert "several-runs" in codes(result)


def test_two_trainings_in_one_log_are_refused(tmp_path: Path) -> None:
    other = [bar(i, 200, i) for i in range(1, 201)]

    result = read(
        tmp_path,
        [BEGINS, STEPS, *training(), LOSS, BEGINS, STEPS.replace("300", "200"), *other, LOSS],
    )

    assert result.throughput is None
    assert "several-runs" in codes(result)


def epoch_bar(words: str, done: int, total: int = 300, *, more: str = ", v_num=0]") -> str:
    return f"{words}{bar(done, total, TRAIN * done)[:-1]}{more}"


@pytest.mark.parametrize(
    "words", ["", "0: ", "[1,0]<stderr>:", "(worker pid=71) ", "Training Epoch 0:", "[rank0]: "]
)
def test_a_bar_of_an_epoch_is_training_behind_marks_of_launchers(
    tmp_path: Path, words: str
) -> None:
    name = "" if "Epoch" in words else "Epoch 0:"
    lines = [epoch_bar(f"{words}{name}  ", done) for done in range(1, 301)]

    result = read(tmp_path, lines)

    assert result.format == "lightning"
    assert is_of_training(result)


@pytest.mark.parametrize(
    "words",
    [
        "[Eval] Best Model at Epoch 1:  ",
        "Validation Epoch 1: ",
        "[Eval] Epoch 1: ",
        "[val, rank 0] Epoch 1: ",
        "Test Epoch 0: ",
        "Predicting: Epoch 0: ",
        "Eval train: ",
        "Train eval: ",
        "Loading train: ",
        "Tokenizing training: ",
        "Validation of training: ",
        "[val] Train: ",
    ],
)
@pytest.mark.parametrize("more", ["]", ", v_num=0, loss=0.51]"])
def test_a_bar_of_evaluation_is_never_training(tmp_path: Path, words: str, more: str) -> None:
    result = read(tmp_path, [epoch_bar(words, done, more=more) for done in range(1, 301)])

    assert result.throughput is None
    assert "unknown-format" in codes(result)


@pytest.mark.parametrize(
    "words",
    [
        "Train Epoch 1: ",
        "Training Epoch 1: ",
        "Train: Epoch 1: ",
        "train epoch 1/3: ",
        "Training (epoch 1): ",
        "Training epoch 1 of 3: ",
        "Train epoch #1: ",
        "[rank0]: Train Epoch 1: ",
    ],
)
@pytest.mark.parametrize("more", ["]", ", loss=0.51]"])
def test_a_bar_whose_whole_name_is_training_and_an_epoch_is_training(
    tmp_path: Path, words: str, more: str
) -> None:
    result = read(tmp_path, [epoch_bar(words, done, more=more) for done in range(1, 301)])

    assert result.format == "tqdm"
    assert is_of_training(result)


def test_a_bar_of_an_epoch_without_a_word_of_training_may_be_of_anything(tmp_path: Path) -> None:
    lines = [epoch_bar("Epoch 0: ", done, more="]") for done in range(1, 301)]

    assert codes(read(tmp_path, lines)) >= {"unknown-format"}
    assert is_of_training(read(tmp_path, lines, fmt=registry.named("lightning")))


def test_bars_of_epochs_with_two_totals_are_not_one_training(tmp_path: Path) -> None:
    lines = [epoch_bar("Epoch 0: ", done) for done in range(1, 301)]
    lines += [epoch_bar("Epoch 1: ", done, 200) for done in range(1, 201)]

    result = read(tmp_path, lines)

    assert result.throughput is None
    assert "unknown-format" in codes(result)


def counting(unit: str, *, each: int = BATCH, is_each: bool = False) -> list[str]:
    """Return states of a bar that counts samples."""
    rate = f"{TRAIN / each:.2f}s/{unit}" if is_each else f"{each / TRAIN:.2f}{unit}/s"
    return [
        f"train:   0%|          | {done * each}/{300 * each} "
        f"[{int(done * TRAIN) // 60:02d}:{int(done * TRAIN) % 60:02d}<03:19, {rate}, loss=2.1]"
        for done in range(1, 301)
    ]


@pytest.mark.parametrize(
    ("unit", "counted"),
    [("img", "samples"), (" samples", "samples"), ("ex", "samples"), ("tok", "tokens")],
)
@pytest.mark.parametrize("is_each", [False, True])
def test_a_bar_that_counts_work_has_no_batch_on_top(
    tmp_path: Path, unit: str, counted: str, is_each: bool
) -> None:
    result = read(
        tmp_path, counting(unit, is_each=is_each), batch_size_per_device=BATCH, world_size=1
    )

    assert (result.unit, result.format) == (counted, f"tqdm-{counted}")
    assert result.throughput == pytest.approx(BATCH / TRAIN, rel=0.01)
    assert sum(span.work for span in result.spans) == result.iterations


@pytest.mark.parametrize("unit", ["it", "step", "batch"])
def test_a_bar_that_counts_steps_has_the_batch_on_top(tmp_path: Path, unit: str) -> None:
    assert is_of_training(read(tmp_path, counting(unit, each=1)))


def test_what_a_bar_of_an_unknown_unit_counts_is_not_known(tmp_path: Path) -> None:
    assert codes(read(tmp_path, counting("rows"))) == {"unknown-format"}


@pytest.mark.parametrize("each_s", [0.13, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("pause_s", [0.4, 3.3, 20.0])
def test_whole_seconds_after_an_evaluation_begin_with_the_next_one(
    tmp_path: Path, each_s: float, pause_s: float
) -> None:
    lines, seconds = [BEGINS, f"  Total optimization steps = {400}"], 0.0
    for i in range(1, 401):
        seconds += each_s
        lines.append(bar(i, 400, seconds))
        if i % 50 == 0:
            lines += [EVALUATION, *(bar(j, 25, j * pause_s / 25) for j in range(1, 26))]
            seconds += pause_s

    result = read(tmp_path, [*lines, LOSS])

    assert result.throughput == pytest.approx(BATCH / each_s, rel=0.02)


@pytest.mark.parametrize("total", [64, 72, 90, 400])
@pytest.mark.parametrize("each_s", [0.11, 0.37, 0.5, 0.7, 1.9])
def test_a_short_bar_is_read_within_its_clock_or_refused(
    tmp_path: Path, total: int, each_s: float
) -> None:
    for phase in (0.0, 0.3, 0.6, 0.9):
        lines = [
            f"Epoch 0: {bar(done, total, each_s * done + phase)[:-1]}, v_num=0]"
            for done in range(1, total + 1)
        ]
        result = read(tmp_path, lines)
        if result.throughput is None:
            assert "insufficient-data" in codes(result)
            assert each_s * (total - 50) < 30
        else:
            assert result.throughput == pytest.approx(BATCH / each_s, rel=0.055)


#: What is printed before the first step and has a word that lines of records have.
AHEAD = (
    [BEGINS, STEPS],
    ["Loading checkpoint shards: 100%|####| 4/4 [00:10<00:00,  2.50s/it]"],
    ["Sanity Checking DataLoader 0: 100%|##| 2/2 [00:01<00:00,  1.50it/s]"],
    ["estimated memory 12 ms, 2.00 it/s", STEPS, BEGINS],
)


@pytest.mark.parametrize("ahead", AHEAD, ids=range(len(AHEAD)))
@pytest.mark.parametrize("words", ["Resuming from checkpoint run/5", "Resuming training from run"])
def test_a_run_that_resumes_before_its_first_step_is_one_run(words: str, ahead: list[str]) -> None:
    begin = [*ahead, words, *([] if BEGINS in ahead else [BEGINS, STEPS])]
    bars = [
        bar(i, UPDATES, 8 + i - 100) if i > 100 else bar(100, UPDATES, 0) for i in range(100, 301)
    ]
    text = "\n".join([*begin, *bars]) + "\n"

    result = extract_stream(io.BytesIO(text.encode()), "train.log", OPTIONS)

    assert result.throughput == pytest.approx(BATCH / TRAIN, rel=0.02), result.problems


@pytest.mark.parametrize(
    "words",
    [
        "DataLoader: Resuming from shard 12",
        "Resuming from wandb sync pause",
        "Resumed from queue 3",
    ],
)
def test_what_else_goes_on_within_a_run_is_no_break(words: str) -> None:
    lines = [BEGINS, STEPS, *training()]
    text = "\n".join([*lines[:100], words, *lines[100:]]) + "\n"

    result = extract_stream(io.BytesIO(text.encode()), "train.log", OPTIONS)

    assert result.throughput == pytest.approx(BATCH / TRAIN, rel=0.02), result.problems
