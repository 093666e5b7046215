from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_dlperf.core.errors import UnknownNameError, UsageError
from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.measure.logs import registry, user_pattern
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.log_lines import WRITERS, mlperf, torchtitan, tsm
from tests.helpers.log_writer import BATCH, Writer, log
from tests.helpers.paddle_lines import paddleclas, paddlevideo, plsc


def read(tmp_path: Path, text: str, **options: object) -> LogResult:
    path = tmp_path / "x_gpu1_bs16.log"
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return extract(path, ParseOptions(**options))  # type: ignore[arg-type]


def codes(result: LogResult) -> set[str]:
    return {problem.code for problem in result.problems}


@pytest.mark.parametrize(
    ("name", "writer"), WRITERS, ids=lambda value: getattr(value, "__name__", value)
)
def test_every_format_is_recognised_and_gives_work_over_time(
    tmp_path: Path, name: str, writer: Writer
) -> None:
    # A progress bar shows whole seconds.
    result = read(tmp_path, log(writer, seconds=1.0))

    assert result.format == name
    assert result.throughput == pytest.approx(BATCH, rel=2e-3)
    # Its mean is printed to one digit, and as exact a little later.
    least = 85 if name == "tf-cnn-benchmarks" else 90
    assert least <= result.iterations <= 100
    assert codes(result) <= {"running-mean", *({"left-out"} if name == "ijepa" else ())}
    assert sum(span.work for span in result.spans) > 0


#: Writers of lines that have times alone: the batch is said elsewhere.
WITHOUT_WORK = frozenset(
    [
        "paddleseg_2020",
        "paddlenlp_trainer",
        "mmseg",
        "mmengine",
        "mmengine_epochs",
        "mmcv_json",
        "mmengine_json",
        "imagenet",
        "torchvision",
        "tsm",
        "huggingface",
        "lightning",
        "lightning_2020",
        "lightning_rich",
        "tqdm",
        "tqdm_named_after",
        "modded_nanogpt",
        "litgpt",
        "lit_gpt_2023",
        "swift",
        "swift_json",
        "llamafactory",
        "detectron2",
        "detectron2_2019",
        "detectron2_wrapped",
        "dinov2",
        "dinov2_json",
        "ultralytics",
        "ultralytics_8_3",
        "keras",
        "keras_2",
        "tf_slim",
        "ijepa",
        "vjepa",
        "vjepa_2",
        "deep_text_recognition",
        "informer",
    ]
)


@pytest.mark.parametrize(
    ("name", "writer"), WRITERS, ids=lambda value: getattr(value, "__name__", value)
)
def test_work_is_that_of_the_lines_where_they_have_it(
    tmp_path: Path, name: str, writer: Writer
) -> None:
    path = tmp_path / "train.log"  # no batch is in its name
    path.write_text(log(writer, seconds=1.0), encoding="utf-8")
    result = extract(path, ParseOptions(world_size=1))
    assert result.format == name
    if writer.__name__ in WITHOUT_WORK:
        assert result.throughput is None
    else:
        assert result.throughput == pytest.approx(BATCH, rel=2e-3)


@pytest.mark.parametrize(
    ("name", "writer"),
    [(name, writer) for name, writer in WRITERS if registry.named(name).tick_s],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_clock_of_whole_seconds_has_hours(tmp_path: Path, name: str, writer: Writer) -> None:
    result = read(tmp_path, log(writer, seconds=60.0))

    assert result.format == name
    assert result.throughput == pytest.approx(BATCH / 60, rel=2e-3)


LAUNCHERS = ["3: ", "[pod/w-0/trainer] ", "(Worker pid=9, ip=10.0.0.1) ", "trainer-1  | "]


@pytest.mark.parametrize(
    ("name", "writer", "mark"),
    [
        (name, writer, LAUNCHERS[i % len(LAUNCHERS)])
        for i, (name, writer) in enumerate(WRITERS)
        # Files of JSON, which no launcher writes to
        if not writer(0, 1.0).startswith("{")
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_launchers_put_before_lines_changes_nothing(
    tmp_path: Path, name: str, writer: Writer, mark: str
) -> None:
    lines = log(writer, iterations=80, seconds=1.0).replace("\r", "\n").split("\n")
    text = "\n".join(f"{mark}{line}" if line else "" for line in lines)

    result = read(tmp_path, text)

    assert result.format == name
    assert result.throughput == pytest.approx(BATCH, rel=5e-3)


@pytest.mark.parametrize(
    ("name", "writer"), WRITERS, ids=lambda value: getattr(value, "__name__", value)
)
def test_too_few_iterations_give_no_number(tmp_path: Path, name: str, writer: Writer) -> None:
    result = read(tmp_path, log(writer, iterations=55))

    assert result.format == name
    assert result.throughput is None
    assert result.estimates is None
    assert "insufficient-data" in codes(result)


def test_device_rates_are_scaled_once_however_many_ranks_print_them(tmp_path: Path) -> None:
    lines = [paddlevideo(i, 0.5) for i in range(0, 150, 10) for _ in range(8)]

    one = read(tmp_path, log(paddlevideo), world_size=8)
    eight = read(tmp_path, "\n".join(lines), world_size=8)

    assert eight.throughput == pytest.approx(8 * BATCH / 0.5)
    assert one.throughput == pytest.approx(eight.throughput)
    assert "duplicate-ranks" in codes(eight)


def test_ranks_that_print_one_global_speed_are_taken_for_one(tmp_path: Path) -> None:
    lines = [f"[1,{rank}]<stdout>:{plsc(i, 0.5)}" for i in range(0, 150, 10) for rank in range(8)]

    result = read(tmp_path, "\n".join(lines))

    assert result.throughput == pytest.approx(BATCH / 0.5)
    assert "duplicate-ranks" in codes(result)


def test_a_running_mean_is_undone(tmp_path: Path) -> None:
    # 0.5 s an iteration until step 54, then 1 s: the printed mean lags behind.
    means = [
        (sum(1.0 if j > 54 else 0.5 for j in range(5, i + 1)) / (i - 4))
        for i in range(10, 150, 10)
    ]
    lines = [paddleclas(i, mean) for i, mean in zip(range(10, 150, 10), means, strict=True)]

    result = read(tmp_path, "\n".join(lines))

    assert result.throughput == pytest.approx(BATCH, rel=0.06)
    assert result.estimates is not None
    assert result.estimates.mean_of_rates > 1.2 * BATCH
    assert "running-mean" in codes(result)


def test_a_counter_that_restarts_each_epoch_does_not_restart_the_warm_up(tmp_path: Path) -> None:
    lines = [
        paddleclas(i, 0.5).replace("epoch:0", f"epoch:{epoch}")
        for epoch in range(5)
        for i in range(0, 40, 10)
    ]

    result = read(tmp_path, "\n".join(lines))

    assert result.throughput == pytest.approx(BATCH / 0.5)
    assert "several-runs" not in codes(result)


def test_two_runs_in_one_log_are_refused(tmp_path: Path) -> None:
    result = read(tmp_path, log(plsc) + log(plsc))

    assert result.throughput is None
    assert "several-runs" in codes(result)


def test_a_slow_stretch_is_named(tmp_path: Path) -> None:
    lines = [plsc(i, 20.0 if i == 120 else 0.5) for i in range(150)]

    result = read(tmp_path, "\n".join(lines))

    (unstable,) = [p for p in result.problems if p.code == "unstable"]
    assert "iterations 121 to 121" in unstable.message


def test_a_path_that_contradicts_its_log_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "x_gpu8_amp.log"
    path.write_text("GPUs used: 4\n+ precision=fp32\n" + log(paddleclas), encoding="utf-8")

    result = extract(path, ParseOptions())

    assert {"world-size-mismatch", "precision-mismatch"} <= codes(result)
    assert result.throughput == pytest.approx(4 * BATCH / 0.5)


def test_a_rate_that_cannot_be_scaled_is_not_given(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(log(tsm), encoding="utf-8")

    result = extract(path, ParseOptions())

    assert result.throughput is None
    assert "unknown-scale" in codes(result)


def test_a_rate_of_a_device_is_one_where_nothing_says_how_many_there_are(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(log(torchtitan), encoding="utf-8")

    alone, of_eight = extract(path, ParseOptions()), extract(path, ParseOptions(world_size=8))

    assert alone.throughput == pytest.approx(BATCH / 0.5)
    assert alone.unit == "tokens/device"
    assert "per-device" in codes(alone)
    assert of_eight.throughput == pytest.approx(8 * BATCH / 0.5)
    assert of_eight.unit == "tokens"
    assert "per-device" not in codes(of_eight)


def test_a_users_own_pattern(tmp_path: Path) -> None:
    fmt = user_pattern.format_of_pattern(
        pattern(r"it (?P<step>\d+) (?P<rate>\S+) it/s", scope="device", unit="clips")
    )
    lines = [f"it {i} 32.0 it/s" for i in range(150)]

    result = read(tmp_path, "\n".join(lines), fmt=fmt, world_size=2)

    assert result.throughput == pytest.approx(64)
    assert result.unit == "clips"


@pytest.mark.parametrize("regex", ["(", "no groups", r"(?P<rate>\d+)"])
def test_a_pattern_that_cannot_work_is_refused(regex: str) -> None:
    with pytest.raises(UsageError, match="pattern"):
        pattern(regex)


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="paddleseg"):
        registry.named("nonesuch")


def test_text_without_a_record_is_a_result_with_a_problem(tmp_path: Path) -> None:
    result = read(tmp_path, "hello\nworld\n")

    assert result.format is None
    assert codes(result) == {"unknown-format"}


def test_one_rate_of_a_whole_run_is_shown_and_not_taken(tmp_path: Path) -> None:
    result = read(tmp_path, "{'train_runtime': 9.1, 'train_samples_per_second': 12.5}\n")

    assert result.format == "huggingface"
    assert result.throughput is None
    assert result.whole_run == 12.5


#: The loss of a writer's lines, where its format reads one.
LOSS = re.compile(r"((?:loss|Loss)[=: ]{1,3})\d[\d.eE+]*")


#: By rewards: losses of an actor and a critic, which may be 0, and none of the whole.
LOSSES_OF_PARTS = {"verl", "deepspeed-chat"}


@pytest.mark.parametrize("loss", ["nan", "inf", "NaN"])
@pytest.mark.parametrize(
    ("name", "writer"),
    [
        (name, writer)
        for name, writer in WRITERS
        if LOSS.search(writer(0, 1.0)) and name not in LOSSES_OF_PARTS
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_last_loss_that_is_no_number_is_a_problem(
    tmp_path: Path, name: str, writer: Writer, loss: str
) -> None:
    *lines, last = [writer(i, 1.0).replace("\r", "") for i in range(151)]
    lost = [LOSS.sub(rf"\g<1>{loss}", line) if i > 90 else line for i, line in enumerate(lines)]

    result = read(tmp_path, "\n".join(lost))

    assert result.format == name
    assert "loss-not-finite" in codes(result)
    assert result.loss_last is None, "it must fit into JSON"
    assert result.throughput is None
    came_back = read(tmp_path, "\n".join([*lost, last]))
    assert "loss-not-finite" not in codes(came_back)
    assert "not-trained" in codes(came_back)


def test_mlperfs_loss_may_be_the_nan_of_pythons_json(tmp_path: Path) -> None:
    lines = log(mlperf).replace('"throughput"', '"loss": NaN, "throughput"')

    result = read(tmp_path, lines)

    assert "loss-not-finite" in codes(result)
    assert result.throughput is None


def test_the_first_loss_of_a_line_counts(tmp_path: Path) -> None:
    text = log(paddleclas).replace("loss:  5.08", "CELoss: nan, loss: 5.08")

    assert "loss-not-finite" in codes(read(tmp_path, text))


def test_a_broken_event_of_mlperf_is_not_a_record() -> None:
    assert registry.named("mlperf").parse(b':::MLLOG {"key": {}, "value": 1}') is None


def litgpt_every(every: int, *, is_last: bool = True) -> str:
    """Return a log of four micro batches an update, of which one in ``every`` is printed."""
    return "".join(
        f"Epoch 1 | iter {i} step {i // 4} | loss train: 1.6, val: n/a | iter time: "
        f"{(800.0 if i % 4 == 0 else 200.0):.2f} ms{' (step)' if i % 4 == 0 else ''}\n"
        for i in range(1, 401)
        if i % every == (0 if is_last else 1)
    )


def test_a_micro_batch_that_updates_is_no_sample_of_those_that_do_not(tmp_path: Path) -> None:
    whole = read(tmp_path, litgpt_every(1))

    assert whole.throughput == pytest.approx(4 * BATCH / 1.4, rel=0.01)
    for part in (litgpt_every(4), litgpt_every(8), litgpt_every(4, is_last=False)):
        result = read(tmp_path, part)
        assert (result.format, result.throughput) == ("litgpt", None)
        assert "micro batches apart" in result.problems[-1].message


def nanogpt_evaluated(every: int, *, prints: int = 60) -> str:
    """Return a log of nanoGPT that is evaluated before one print in ``every``."""
    lines = ["tokens per iteration will be: 1,000"]
    for i in range(0, 10 * prints, 10):
        is_evaluated = i % (10 * every) == 0
        lines += [f"step {i}: train loss 9.0000, val loss 9.0000"] if is_evaluated else []
        seconds = 3.0 if is_evaluated else 1.0
        lines.append(f"iter {i}: loss 9.0000, time {1000 * seconds:.2f}ms, mfu 38.10%")
    return "\n".join([*lines, ""])


def test_a_print_of_nanogpt_with_an_evaluation_in_it_is_left_out(tmp_path: Path) -> None:
    some, every = read(tmp_path, nanogpt_evaluated(5)), read(tmp_path, nanogpt_evaluated(1))

    assert some.throughput == pytest.approx(1000)
    assert every.throughput is None
    assert "every print has the time of an evaluation" in every.problems[-1].message
    assert read(tmp_path, nanogpt_evaluated(5, prints=900)).throughput == pytest.approx(1000)
