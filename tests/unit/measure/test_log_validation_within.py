"""Lightning's bars of epochs that go on after a validation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions

STEPS, BATCHES = 1000, 20
NAMES = ("Validation DataLoader 0:", "Validating:", "Validation:")


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def bar(epoch: int, drawn: int, total: int, at_s: float) -> str:
    rest = "<01:00,  4.00it/s, v_num=0, loss=3.6]"
    return f"Epoch {epoch}:  25%|##  | {drawn}/{total} [{clock(at_s)}{rest}"


def states(
    each_s: tuple[float, ...],
    *,
    validations: int,
    name: str = NAMES[0],
    every: int = 1,
    validation_s: float = 12.0,
    in_clock: bool = True,
    goes_on_beside: bool = False,
    epochs: int = 1,
) -> Iterator[str]:
    """Yield bars of epochs, whose parts between validations have so many seconds a step."""
    total = STEPS + validations * BATCHES * goes_on_beside
    for epoch in range(epochs):
        drawn, at_s = 0, 0.0
        for step in range(1, STEPS + 1):
            drawn, at_s = drawn + 1, at_s + each_s[(step - 1) * len(each_s) // STEPS]
            if step % every == 0:
                yield bar(epoch, drawn, total, at_s)
            if validations and step % (STEPS // validations) == 0:
                yield f"{name} |          | 0/? [00:00<?, ?it/s]"
                for batch in range(1, BATCHES + 1):
                    at_s += in_clock * validation_s / BATCHES
                    spent = clock(batch * validation_s / BATCHES)
                    yield f"{name}  10%|#  | {batch}/{BATCHES} [{spent}<00:03, 9.9it/s]"
                    drawn += goes_on_beside
                    if goes_on_beside:
                        yield bar(epoch, drawn, total, at_s)
                yield bar(epoch, drawn, total, at_s)


def read(tmp_path: Path, lines: Iterator[str]) -> LogResult:
    path = tmp_path / "train_1n4g_bs32.log"
    path.write_text("\r".join(lines) + "\n", encoding="utf-8")
    return extract(path, ParseOptions(in_iterations=True))


def left_out(result: LogResult) -> str:
    return next(each.message for each in result.problems if each.code == "left-out")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("in_clock", [True, False])
@pytest.mark.parametrize("every", [1, 10, 25])
def test_a_bar_goes_on_after_a_validation(
    tmp_path: Path, name: str, in_clock: bool, every: int
) -> None:
    lines = states((0.2,), validations=4, name=name, in_clock=in_clock, every=every)

    result = read(tmp_path, lines)

    assert result.throughput == pytest.approx(5.0, rel=0.02)
    assert result.iterations > 850
    assert every > 1 or "went on after a validation 3 times" in left_out(result)


@pytest.mark.parametrize("every", [1, 10, 25])
def test_what_gets_slow_after_the_first_validation_counts(tmp_path: Path, every: int) -> None:
    result = read(tmp_path, states((0.1, 0.3, 0.3, 0.3), validations=4, every=every))

    assert result.throughput == pytest.approx(950 / (200 * 0.1 + 750 * 0.3), rel=0.08)


@pytest.mark.parametrize("validation_s", [2.0, 30.0])
def test_steps_of_a_bar_that_goes_on_in_a_validation_do_not_count(
    tmp_path: Path, validation_s: float
) -> None:
    lines = states((0.2,), validations=4, validation_s=validation_s, goes_on_beside=True)

    result = read(tmp_path, lines)

    assert result.throughput == pytest.approx(5.0, rel=0.02)
    assert result.iterations > 850


@pytest.mark.parametrize("validations", [0, 1])
def test_nothing_is_left_out_within_epochs_that_a_validation_ends(
    tmp_path: Path, validations: int
) -> None:
    result = read(tmp_path, states((0.2,), validations=validations, epochs=3))

    assert result.throughput == pytest.approx(5.0, rel=0.02)
    assert "left-out" not in {problem.code for problem in result.problems}


def test_what_many_validations_leave_is_said(tmp_path: Path) -> None:
    result = read(tmp_path, states((0.2,), validations=40))

    assert result.throughput == pytest.approx(5.0, rel=0.05)
    assert result.iterations < 100
    assert " of 946 iterations after the warm-up" in left_out(result)
