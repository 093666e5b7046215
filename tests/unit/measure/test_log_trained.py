"""Iterations of a log that trained nothing: no number where they are more than a few."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.cli.main import main
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.flow.user_program import summarise_program
from pytest_dlperf.measure.logs import user_pattern
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.registry import named
from tests.helpers.log_lines import (
    deepspeed,
    deepspeed2022,
    gpt_neox,
    huggingface,
    lightning,
    lightning_rich,
    megatron,
    mlperf,
    mmcv_json,
    mmengine,
    torchtitan,
)
from tests.helpers.log_writer import BATCH
from tests.helpers.nvidia_lines import ngc_tensorflow_bert
from tests.helpers.paddle_lines import paddleclas
from tests.helpers.record_files import case, write

pytestmark = pytest.mark.newest

ITERATIONS = 250
#: After the 50 of warm-up.
MEASURED = 200
#: Gets the iteration and how many before it, itself included, trained nothing; returns its lines.
Lines = Callable[[int, int, bool], str]


def megatron_skips(i: int, lost_so_far: int, lost: bool) -> str:
    loss = "" if lost else "lm loss: 7.399415E+00 | "
    counts = f"number of skipped iterations: {lost:3d} | number of nan iterations:   0 |"
    return megatron(i, 1.0).replace("lm loss: 7.399415E+00 |", f"{loss}loss scale: 1.0 | {counts}")


def megatron_nan(i: int, lost_so_far: int, lost: bool) -> str:
    line = megatron_skips(i, 0, False)
    return line.replace("nan iterations:   0", f"nan iterations: {lost:3d}")


def megatron_norm(i: int, lost_so_far: int, lost: bool) -> str:
    norm = "nan" if lost else "1.205"
    return megatron_skips(i, 0, False).replace("loss scale", f"grad norm: {norm} | loss scale")


def neox_skips(i: int, lost_so_far: int, lost: bool) -> str:
    return f"{gpt_neox(i, 1.0)} number of skipped iterations: {lost:3d} |"


def deepspeed_counter(i: int, lost_so_far: int, lost: bool) -> str:
    head = "[2023-10-31 08:58:33,237] [INFO] [logging.py:96:log_dist] [Rank 0]"
    counter = f"{head} step={i + 1}, skipped={lost_so_far}, lr=[1e-05], mom=[[0.9, 0.999]]"
    return f"{counter}\n{deepspeed(i, 1.0)}"


def deepspeed_overflow(i: int, lost_so_far: int, lost: bool) -> str:
    scale = 2.0 ** (32 - lost_so_far)
    words = f"[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {scale}, reducing"
    return f"[INFO] [loss_scaler.py:181] {words}\n" * lost + deepspeed2022(i, 1.0)


def deepspeed_stuck(i: int, lost_so_far: int, lost: bool) -> str:
    words = "Overflow detected. Skipping step. Attempted loss scale: 1.0, reducing to 1.0"
    return f"[Rank 0] {words}\n" * lost + deepspeed(i, 1.0)


def deepspeed_own_loss(i: int, lost_so_far: int, lost: bool) -> str:
    return f"epoch 0 step {i}, loss: {'nan' if lost else '2.5'}\n{deepspeed(i, 1.0)}"


def apex_words(i: int, lost_so_far: int, lost: bool) -> str:
    scale = 2.0 ** (16 - lost_so_far)
    words = f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {scale}"
    return f"{words}\n" * lost + paddleclas(i, 1.0)


def paddle_words(i: int, lost_so_far: int, lost: bool) -> str:
    words = "Found inf or nan, current scale is: 1.0, decrease to: 1.0*0.5"
    return f"{words}\n" * lost + paddleclas(i, 1.0)


def paddlenlp_words(i: int, lost_so_far: int, lost: bool) -> str:
    words = f"optimizer not run, scale_before: {2.0**-lost_so_far}, scale_after: 1.0"
    return f"[WARNING] - {words}\n" * lost + paddleclas(i, 1.0)


def huggingface_norm(i: int, lost_so_far: int, lost: bool) -> str:
    line = huggingface(i, 1.0).replace("/150", f"/{ITERATIONS}")
    return line.replace("'2.075', 'grad_norm': '1.2'", "0.0, 'grad_norm': nan") if lost else line


def huggingface_zero(i: int, lost_so_far: int, lost: bool) -> str:
    line = (
        huggingface(i, 1.0).replace("/150", f"/{ITERATIONS}").replace("'grad_norm': '1.2', ", "")
    )
    return line.replace("'2.075'", "0.0") if lost else line


def torchtitan_norm(i: int, lost_so_far: int, lost: bool) -> str:
    norm = "nan" if lost else " 1.2"
    return torchtitan(i, 1.0).replace("\x1b[33mmemory", f"\x1b[39mgrad_norm: {norm}  memory")


def mmengine_norm(i: int, lost_so_far: int, lost: bool) -> str:
    return mmengine(i, 1.0).replace("  loss", f"  grad_norm: {'nan' if lost else '3.1'}  loss")


def mmcv_norm(i: int, lost_so_far: int, lost: bool) -> str:
    norm = "NaN" if lost else "3.1"
    return mmcv_json(i, 1.0).replace('"loss":', f'"grad_norm": {norm}, "loss":')


def nemo(i: int, lost_so_far: int, lost: bool) -> str:
    loss = "reduced_train_loss=nan" if lost else "reduced_train_loss=5.10"
    return lightning(i, 1.0).replace("train_loss=5.10", loss)


def rich(i: int, lost_so_far: int, lost: bool) -> str:
    return (
        lightning_rich(i, 1.0).replace("loss: 5.1", "loss: nan") if lost else lightning_rich(i, 1)
    )


def mlperf_loss(i: int, lost_so_far: int, lost: bool) -> str:
    return mlperf(i, 1.0).replace('"throughput"', f'"loss": {"NaN" if lost else 2}, "throughput"')


def stalled_counter(i: int, lost_so_far: int, lost: bool) -> str:
    return ngc_tensorflow_bert(i - lost_so_far, 1.0)


FAMILIES: tuple[tuple[str, Lines], ...] = (
    ("megatron", megatron_skips),
    ("megatron", megatron_nan),
    ("megatron", megatron_norm),
    ("megatron", neox_skips),
    ("deepspeed", deepspeed_counter),
    ("deepspeed2021", deepspeed_overflow),
    ("deepspeed", deepspeed_stuck),
    ("deepspeed", deepspeed_own_loss),
    ("paddleclas", apex_words),
    ("paddleclas", paddle_words),
    ("paddleclas", paddlenlp_words),
    ("huggingface", huggingface_norm),
    ("huggingface", huggingface_zero),
    ("torchtitan", torchtitan_norm),
    ("mmseg", mmengine_norm),
    ("mmcv-json", mmcv_norm),
    ("lightning", nemo),
    ("lightning", rich),
    ("mlperf", mlperf_loss),
    ("ngc-tensorflow-bert", stalled_counter),
)
every_family = pytest.mark.parametrize(
    ("name", "lines"), FAMILIES, ids=[lines.__name__ for _, lines in FAMILIES]
)


def written(folder: Path, lines: Lines, lost: range | set[int]) -> Path:
    so_far, text = 0, []
    for i in range(ITERATIONS):
        so_far += i in lost
        text.append(lines(i, so_far, i in lost))
    path = folder / "x_gpu1_bs16.log"
    path.write_text("\n".join([*text, ""]), encoding="utf-8")
    return path


def read(folder: Path, lines: Lines, lost: range | set[int], **options: Any) -> LogResult:
    return extract(written(folder, lines, lost), ParseOptions(**options))


def problem(result: LogResult, code: str) -> str:
    return next((one.message for one in result.problems if one.code == code), "")


@every_family
def test_a_window_that_trained_nothing_gives_no_number(tmp_path: Path, name: str, lines: Lines):
    # The last loss is there again, so that it is not that which is refused.
    result = read(tmp_path, lines, range(100, ITERATIONS - 15))

    assert result.format == name
    assert result.throughput is None
    words = problem(result, "not-trained")
    assert f"of the {result_iterations(words)} iterations that were measured" in words
    assert 120 <= int(words.split()[0]) <= 140


def result_iterations(words: str) -> int:
    measured = int(words.split()[3])
    assert MEASURED - 10 <= measured <= MEASURED
    return measured


@every_family
def test_skips_of_the_warm_up_are_normal(tmp_path: Path, name: str, lines: Lines):
    result = read(tmp_path, lines, range(2, 40))

    assert result.format == name
    assert result.throughput == pytest.approx(BATCH, rel=2e-3)
    assert not problem(result, "not-trained")
    assert not problem(result, "steps-skipped")


@every_family
def test_a_few_skips_of_a_long_window_are_said(tmp_path: Path, name: str, lines: Lines):
    result = read(tmp_path, lines, {120, 200})

    assert result.throughput == pytest.approx(BATCH, rel=2e-3)
    assert int(problem(result, "steps-skipped").split()[0]) in range(1, 3)


@every_family
@pytest.mark.parametrize("lost", [range(100, 240), {120, 200}, range(10, 30)])
def test_by_columns_and_line_by_line_a_log_says_the_same(
    tmp_path: Path, name: str, lines: Lines, lost: range | set[int]
):
    path, fmt = written(tmp_path, lines, lost), named(name)
    by_columns = extract(path, ParseOptions(fmt=fmt))
    by_line = extract(path, ParseOptions(fmt=replace(fmt, by_shape=False)))

    assert asdict(by_columns)["problems"] == asdict(by_line)["problems"]
    assert by_columns.throughput == pytest.approx(by_line.throughput)


def test_a_users_pattern_reads_the_words_as_well(tmp_path: Path):
    """Lines of fairseq, which has no format."""

    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        words = "NOTE: gradient overflow detected, ignoring gradient, setting loss scale to: "
        return f"{words}{2.0**-lost_so_far}\n" * lost + f"it {i} 16.0 it/s"

    fmt = user_pattern.format_of_pattern(OWN)

    assert problem(read(tmp_path, lines, range(100, 250), fmt=fmt), "not-trained")
    assert read(tmp_path, lines, range(40), fmt=fmt).throughput == 16


OWN = pattern(r"it (?P<step>\d+) (?P<rate>\S+) it/s")


@pytest.mark.parametrize("separator", ["\n", " "])
@pytest.mark.parametrize(
    "words",
    [
        "[deepspeed] OVERFLOW! Rank 3 Skipping step. Attempted loss scale: 1, reducing to 1",
        "non-finite gradients: ignoring update",
        "AMP: overflow detected, setting scale to to 1.0",
        "reduced_train_loss: nan",
        "Loss is NaN",
        "train/loss=tensor(nan, device='cuda:0')",
    ],
)
def test_words_of_many_programs(tmp_path: Path, words: str, separator: str):
    """On a line of their own, or on that of a pattern that has no loss."""

    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        step = f"it {i} 16.0 it/s"
        return f"{words}{separator}{step}" if lost else f"loss: 2.0 {step}"

    fmt = user_pattern.format_of_pattern(OWN)
    assert problem(read(tmp_path, lines, range(100, 240), fmt=fmt), "not-trained")
    assert read(tmp_path, lines, range(40), fmt=fmt).throughput == 16
    assert read(tmp_path, lines, {100}, fmt=fmt).throughput == 16


@pytest.mark.parametrize(
    "words",
    [
        "WARNING: The grad norm is nan. Skipping updating the model.",
        "Found NaN in gradients, skip this iteration",
        "Found inf in gradients, skipping optimizer step",
        "Overflow occurs, skip the current step",
        "Skipping optimizer step: gradient overflow",
        "Skipping step because gradients are infinite",
        "Skipping update: NaN detected in gradients",
        "WARNING: non finite gradients detected; step skipped",
        "non-finite gradients: step 17 was skipped",
        "[WARN] Skipped step 3 (inf/nan grads)",
    ],
)
def test_gradients_that_are_not_numbers_in_words(tmp_path: Path, words: str):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        return f"{words}\n" * lost + f"it {i} 16.0 it/s"

    fmt = user_pattern.format_of_pattern(OWN)
    assert problem(read(tmp_path, lines, range(100, 240), fmt=fmt), "not-trained")


def test_a_loss_that_vanishes_is_a_sign(tmp_path: Path):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        return (
            megatron(i, 1.0).replace("lm loss: 7.399415E+00 |", "") if lost else megatron(i, 1.0)
        )

    result = read(tmp_path, lines, range(30, ITERATIONS))

    assert result.throughput is None
    assert "a loss until iteration 30, and none in the 200" in problem(result, "not-trained")
    # Printed now and then, it is there; a log without any loss has lost none.
    assert read(tmp_path, lines, set(range(ITERATIONS)) - {0, 100, 200}).throughput
    assert read(tmp_path, lines, range(ITERATIONS)).throughput


ZERO = "lm loss: 0.000000E+00 |"
NO_NORM = f"{ZERO} grad norm: 0.000 |"


@pytest.mark.parametrize("zero", [ZERO, NO_NORM])
@pytest.mark.parametrize("begin", [30, 45])
def test_a_loss_of_0_that_no_training_comes_to_is_a_sign(tmp_path: Path, zero: str, begin: int):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        line = megatron(i, 1.0)
        return line.replace("lm loss: 7.399415E+00 |", zero) if lost else line

    result = read(tmp_path, lines, range(begin, ITERATIONS))
    assert result.throughput is None
    assert "200 with a loss of 0" in problem(result, "not-trained")
    # Also where some of the window has a loss.
    result = read(tmp_path, lines, range(begin, ITERATIONS - 50))
    assert result.throughput is None
    assert "150 with a loss of 0" in problem(result, "not-trained")


@pytest.mark.parametrize("norm", ["0.000", None])
@pytest.mark.parametrize(
    ("lost", "count"),
    [(range(200, 250), 50), (range(230, 250), 20), (range(100, 130), 30), (range(150, 155), 5)],
    ids=["last fifth", "last", "a while", "a few"],
)
def test_a_loss_of_0_in_a_part_of_the_window_is_said(
    tmp_path: Path, lost: range, count: int, norm: str | None
):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        loss = "lm loss: 0.000000E+00 |" if lost else "lm loss: 7.399415E+00 |"
        gradient = "" if norm is None else f" grad norm: {norm if lost else 1.205} |"
        return megatron(i, 1.0).replace("lm loss: 7.399415E+00 |", f"{loss}{gradient}")

    result = read(tmp_path, lines, lost)

    code = "not-trained" if count > 10 else "steps-skipped"
    assert f"{count} with a loss of 0" in problem(result, code)
    assert (result.throughput is None) is (count > 10)


def test_a_loss_of_0_of_rewards_that_are_alike_is_trained(tmp_path: Path):
    """As some steps of GRPO have, whose loss is 0 or small, and whose gradients are not."""

    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        usual = f"'{0 if i % 2 else 0.0013}', 'grad_norm': '0.31'"
        line = huggingface(i, 1.0).replace("/150", f"/{ITERATIONS}")
        return line.replace(
            "'2.075', 'grad_norm': '1.2'", "'0.0', 'grad_norm': '0.0'" if lost else usual
        )

    assert read(tmp_path, lines, set(range(60, ITERATIONS, 3))).throughput


def test_gradients_of_0_of_what_is_learnt_by_heart_are_trained(tmp_path: Path):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        loss, norm = max(0.0, 3.0 - 0.03 * i), 0.0 if i > 100 else 0.2
        text = f"lm loss: {loss:.2f} | grad norm: {norm:.3f} |"
        return megatron(i, 1.0).replace("lm loss: 7.399415E+00 |", text)

    assert read(tmp_path, lines, set()).throughput == pytest.approx(BATCH)


@pytest.mark.parametrize(
    "dictionary",
    [
        "{'loss': 0.0, 'grad_norm': 0.0, 'learning_rate': 5e-05, 'epoch': 0.04}",
        "{'loss': '0', 'grad_norm': '0', 'learning_rate': '5e-05', 'epoch': '0.04'}",
        "{'loss': 0.0000, 'grad_norm': 0, 'epoch': 0.04}",
    ],
)
@pytest.mark.parametrize("every", [1, 7, 10])
@pytest.mark.parametrize("begin", [0, 30])
def test_a_loss_of_0_beside_a_bar_whose_gradients_are_0_is_a_sign(
    tmp_path: Path, dictionary: str, every: int, begin: int
):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        bar, _, usual = huggingface(i, 1.0).replace("/150", f"/{ITERATIONS}").partition("\n")
        return f"{bar}\n{dictionary if lost else usual}" if i % every == 0 else bar

    result = read(tmp_path, lines, range(begin, ITERATIONS))
    assert result.throughput is None
    assert "200 with a loss of 0" in problem(result, "not-trained")
    # Also where some of the window has a loss.
    for part in (range(begin, ITERATIONS - 50), range(100, ITERATIONS)):
        assert problem(read(tmp_path, lines, part), "not-trained")


def test_a_loss_of_0_beside_a_bar_whose_gradients_are_not_0_is_trained(tmp_path: Path):
    """As rewards without a spread give."""

    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        return huggingface(i, 1.0).replace("/150", f"/{ITERATIONS}").replace("'2.075'", "0.0")

    assert read(tmp_path, lines, set()).throughput


@pytest.mark.parametrize("norm", ["", " grad norm: 0.002 |"])
def test_a_loss_that_comes_to_0_is_trained(tmp_path: Path, norm: str):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        loss = max(0.0, 3.0 - 0.1 * i)
        return megatron(i, 1.0).replace("lm loss: 7.399415E+00 |", f"lm loss: {loss:.1f} |{norm}")

    assert read(tmp_path, lines, set()).throughput == pytest.approx(BATCH)


@pytest.mark.parametrize("words", ["aux_loss: nan", "moe/reg_loss: nan", "kl loss = nan"])
def test_another_loss_is_not_the_trainings_own(tmp_path: Path, words: str):
    """But where the format reads no finite loss, nothing else shows that it trains."""

    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        return f"{words}\n{megatron(i, 1.0)}"

    assert read(tmp_path, lines, set()).throughput == pytest.approx(BATCH)

    def own(i: int, lost_so_far: int, lost: bool) -> str:
        return lines(i, 0, False).replace(words, "train_loss: nan")

    def unread(i: int, lost_so_far: int, lost: bool) -> str:
        return f"{words}\n{deepspeed(i, 1.0)}"

    for lost in (own, unread):
        assert problem(read(tmp_path, lost, set()), "not-trained")


def test_a_loss_beside_a_bar_that_comes_seldom_has_not_vanished(tmp_path: Path):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        return huggingface(i, 1.0).partition("\n{" if lost else "\0")[0]

    assert read(tmp_path, lines, range(1, ITERATIONS)).throughput


def test_ranks_that_print_one_skip_are_one_skip(tmp_path: Path):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        *words, step = apex_words(i, lost_so_far, lost).splitlines()
        return "\n".join([*words * 8, step])

    words = problem(read(tmp_path, lines, {100, 101, 160}), "steps-skipped")
    assert words.startswith("3 of the")


def test_the_words_may_follow_a_bar_on_its_line(tmp_path: Path):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        words = (
            f"Gradient overflow.  Skipping step, loss scale {2.0**-lost_so_far}" if lost else ""
        )
        return huggingface(i, 1.0).replace("\n", f"{words}\n")

    assert problem(read(tmp_path, lines, range(100, 240)), "not-trained")


def test_losses_of_words_that_come_seldom_are_of_all_since_the_last(tmp_path: Path):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        return f"loss: nan\n{deepspeed(i, 1.0)}" if i % 20 == 0 else deepspeed(i, 1.0)

    assert problem(read(tmp_path, lines, set()), "not-trained")


def test_counters_of_two_models_are_not_added_up(tmp_path: Path):
    """Actor and critic of an RLHF training each print their own."""

    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        actor, critic = deepspeed_counter(i, 7, False), deepspeed_counter(i, 2, False)
        return f"{actor}\n{critic}"

    result = read(tmp_path, lines, set())
    assert result.throughput == pytest.approx(BATCH, rel=2e-3)
    assert not problem(result, "steps-skipped")


def test_words_of_a_rank_that_is_not_counted_are_left_out(tmp_path: Path):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        words = "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to "
        tagged = [f"[1,{rank}]<stdout>:{megatron(i, 1.0)}" for rank in range(2)]
        return "\n".join([*tagged, *[f"[1,1]<stdout>:{words}{i}"] * lost])

    assert read(tmp_path, lines, range(100, 200)).throughput == pytest.approx(BATCH)


@pytest.mark.parametrize(
    "words",
    [
        "[INFO] [fused_optimizer.py:362:_update_scale] No Grad overflow for 100 iterations",
        "val loss: nan",
        "Epoch 3 | validation | step 5 | loss: nan",
        "Skipping step 3 of the preparation",
        "self._overflow_buf = torch.cuda.IntTensor([0])",
        "-Wno-stringop-overflow -Wno-error=pedantic",
        "loaded 100, skipped=3, lr=[0.1]",
        "loss_scale: 1.0 nanoseconds: 5",
        "dev loss: nan",
        "[INFO] Skipping step 3 of the preparation [INFO]",
        "number of skipped iterations: 0 | number of nan iterations: 0 |",
        "number of skipped steps: 0, number of inf gradients: 0",
        "overflow checks: off; skip batches: 0",
        "check nan: on, skip updates = False",
        "inf gradients: none, 0 skipped steps",
        "Skipping the first 100 batches of a run that goes on, info: none",
    ],
)
def test_other_words_say_nothing(tmp_path: Path, words: str):
    def lines(i: int, lost_so_far: int, lost: bool) -> str:
        return f"{words}\n{deepspeed(i, 1.0)}"

    result = read(tmp_path, lines, set())
    assert result.throughput == pytest.approx(BATCH)
    assert not problem(result, "steps-skipped")


def test_a_program_whose_log_says_it_trained_nothing_is_an_error(tmp_path: Path):
    run = write(tmp_path, [])
    text = written(tmp_path, megatron_skips, range(ITERATIONS)).read_text(encoding="utf-8")
    Path(run.log).write_text(text, encoding="utf-8")

    with pytest.raises(CaseError, match="trained nothing") as error:
        summarise_program(
            case("1n1c", command=["x"], log_format="megatron", unit="sequences"), run
        )
    assert "Say in the marker" not in str(error.value)


@pytest.mark.parametrize("options", [[], ["--paired"]])
def test_a_side_that_trained_nothing_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
):
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    good = str(written(tmp_path / "good", megatron_skips, set()))
    bad = str(written(tmp_path / "bad", megatron_skips, range(100, ITERATIONS)))

    assert main(["judge", *options, good, bad]) == 1
    assert f": error\n  {bad}: 150 of the 200 iterations" in capsys.readouterr().out
    assert main(["judge", *options, bad, good]) == 1
    assert f": error\n  {bad}: 150 of the 200 iterations" in capsys.readouterr().out
    assert main(["extract", bad]) == 1


def test_a_side_without_the_loss_of_the_other_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "bad").mkdir()
    good = written(tmp_path, megatron_skips, set())
    bad = tmp_path / "bad" / "x_gpu1_bs16.log"
    bad.write_text(good.read_text(encoding="utf-8").replace("lm loss", "lr"), encoding="utf-8")

    assert main(["judge", str(good), str(bad)]) == 1
    assert "have a loss, and those of" in capsys.readouterr().out
    assert main(["judge", str(bad), str(good)]) == 0
