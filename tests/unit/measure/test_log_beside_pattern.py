"""What a line says besides the numbers of a pattern: a training that is lost has no speed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_dlperf.measure.logs.beside_pattern import loss_of, norm_of
from tests.unit.measure.test_log_other_units import by_pattern
from tests.unit.measure.test_log_scale import codes, message

STEP = r"step\D*(?P<step>\d+)"
#: Gets a step and whether its training is lost.
Line = Callable[[int, bool], str]


def log(line: Line, lost_from: int, *, steps: int = 120) -> str:
    return "".join(line(i, i >= lost_from) for i in range(1, steps + 1))


def loss_at(i: int, lost: bool, text: str) -> str:
    return text if lost else f"{2 + 8 / i**0.5:.4f}"


def plain(text: str) -> Line:
    return lambda i, lost: f"step {i} | loss {loss_at(i, lost, text)} | 640.{i % 7} samples/s\n"


def in_json(i: int, lost: bool) -> str:
    return f'{{"step": {i}, "train_loss": {loss_at(i, lost, "0.0")}, "samples_per_sec": 640.5}}\n'


def dictionary(i: int, lost: bool) -> str:
    norm = "nan" if lost else "1.2"
    return (
        f"{{'loss': {loss_at(i, lost, '0.0')}, 'grad_norm': {norm}}} step {i} | 640.5 samples/s\n"
    )


def norm(i: int, lost: bool) -> str:
    return f"step {i} | loss 3.{i % 9} | gnorm {'inf' if lost else '0.8'} | 640.5 samples/s\n"


def behind_level(i: int, lost: bool) -> str:
    return f"INFO loss={loss_at(i, lost, 'nan')}, val_loss=2.1 step={i} | 640.5 samples/s\n"


RATE = (f"--pattern={STEP}", "--pattern=(?P<rate>[\\d.]+) samples/s")
JSON_RATE = (f"--pattern={STEP}", '--pattern=per_sec": (?P<rate>[\\d.]+)')


@pytest.mark.parametrize(
    ("line", "options"),
    [
        (plain("0.0000"), RATE),
        (plain("inf"), RATE),
        (plain("nan"), RATE),
        (in_json, JSON_RATE),
        (dictionary, RATE),
        (norm, RATE),
        (norm, (r"--pattern=step (?P<step>\d+).*gnorm (?P<grad_norm>\S+) \| (?P<rate>\S+)",)),
        (behind_level, RATE),
    ],
    ids=["zero", "inf", "nan", "json", "dictionary", "norm", "norm by group", "level"],
)
def test_a_training_that_is_lost_gives_no_number(
    tmp_path: Path, line: Line, options: tuple[str, ...]
):
    result = by_pattern(tmp_path / "a.log", log(line, 61), *options)

    assert result.throughput is None
    assert {"not-trained", "loss-not-finite"} & set(codes(result))
    assert by_pattern(tmp_path / "b.log", log(line, 1000), *options).throughput


def test_a_loss_that_is_0_from_the_first_step_to_the_last_is_none(tmp_path: Path):
    result = by_pattern(tmp_path / "a.log", log(plain("0.0000"), 1), *RATE)

    assert "with a loss of 0" in message(result, "not-trained")


def test_a_loss_of_0_with_gradients_is_trained(tmp_path: Path):
    def line(i: int, lost: bool) -> str:
        return f"step {i} loss 0.0000 grad norm 0.{i % 7 + 1} | 640.5 samples/s\n"

    result = by_pattern(tmp_path / "a.log", log(line, 1), *RATE)
    assert result.throughput == pytest.approx(640.5)
    assert result.figures is not None


@pytest.mark.parametrize(
    "words",
    [
        "val_loss 0.0",
        "val loss: nan",
        "aux_loss=nan",
        "loss_scale=0",
        "policy loss 0.0",
        "kl loss nan",
        "packet loss 0%",
        "loss0 0.0",
        "closs 0.0",
    ],
)
def test_another_loss_says_nothing_of_the_training(tmp_path: Path, words: str):
    def line(i: int, lost: bool) -> str:
        return f"step {i} | 640.5 samples/s {words}\n"

    assert loss_of(words.encode()) is None
    if "nan" not in words:
        result = by_pattern(tmp_path / "a.log", log(line, 1), *RATE)
        assert result.throughput == pytest.approx(640.5)


@pytest.mark.parametrize(
    ("line", "loss"),
    [
        (b"step 3 loss 2.5", 2.5),
        (b"Train Loss: 1,024.5 | Val Loss: 3", 1024.5),
        (b'{"loss": NaN}', float("inf")),
        (b"'train/loss': '1e-3'", 1e-3),
        (b"loss nan loss 2.5", 2.5),
        (b"loss=tensor(nan)", float("inf")),
        (b"Loss = 0 (3.2)", 0.0),
        (b"no numbers of a loss", None),
    ],
)
def test_which_loss_of_a_line_is_the_trainings(line: bytes, loss: float | None):
    assert loss_of(line) == loss


@pytest.mark.parametrize(
    ("line", "norm"),
    [
        (b"grad_norm 1.5", 1.5),
        (b"'gradient_norm': nan", float("inf")),
        (b"train/grad_norm=0.2", 0.2),
        (b"total grad norm: 3", 3.0),
        (b"param_norm 3", None),
        (b"critic_grad_norm nan", None),
    ],
)
def test_which_norm_of_a_line_is_the_gradients(line: bytes, norm: float | None):
    assert norm_of(line) == norm
