"""Bars of unknown programs: which pattern is shown for them, and what it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_dlperf.measure.logs.extract import extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.extracted import extracted
from tests.unit.measure.test_log_refusals import refused, shown
from tests.unit.measure.test_log_scale import message

pytestmark = pytest.mark.once


def test_means_of_a_bar_since_it_began_are_said_to_be_so(tmp_path: Path) -> None:
    text = ""
    for i in range(1, 201):
        minute, second = divmod(100 + i // 2, 60)
        state = f"{minute:02d}:{second:02d}<0:10, {(100 + i / 2) / i:.2f}s/it"
        text += f"steps: {i // 2:3d}%|##  | {i}/200 [{state}]\r"

    path = tmp_path / "train.log"
    result = refused(path, text.encode() + b"\n")

    assert "a mean since the bar began" in message(result, "unknown-format")
    sizes = ["--batch_size_per_device=1", "--world_size=1"]
    # The first step took 100 s, which are in all of the means.
    assert extracted(path, *shown(result), *sizes).throughput == pytest.approx(2, rel=0.03)


def test_the_bar_of_a_notebook_is_read_as_a_mean_since_it_began(tmp_path: Path) -> None:
    """As Unsloth's notebooks have it; the first step took 60 s."""
    text = ""
    for i in range(1, 301):
        minute, second = divmod(60 + i // 2, 60)
        rate = i / (60 + i / 2)
        text += (
            f"\r [{i:3d}/300 {minute:02d}:{second:02d} < 01:48, {rate:.2f} it/s, Epoch 0.{i}/1]"
        )
    path = tmp_path / "train.log"

    options = shown(refused(path, text.encode() + b"\n"))

    assert "--averaging=running" in options
    assert extracted(path, *options).throughput == pytest.approx(2, rel=0.05)


def bar_of(name: str, times: list[float], *, is_mean: bool) -> str:
    """Return the states of a bar whose steps take so long, by means since it began or by each."""
    text, elapsed = "", 0.0
    for i, each_s in enumerate(times, 1):
        elapsed += each_s
        shown_s = elapsed / i if is_mean else each_s
        speed = f"{1 / shown_s:.2f}it/s" if shown_s <= 1 else f"{shown_s:.2f}s/it"
        clock = f"{int(elapsed) // 60:02d}:{int(elapsed) % 60:02d}<0:10"
        text += f"{name}: {i // 20:3d}%|##  | {i}/2000 [{clock}, {speed}, avr_loss=0.1]\r"
    return text + "\n"


#: Each name, each pair of speeds and each turn is read in the gate, not each name at each speed.
NAMES, SPEEDS = ("steps", "Fine-tuning", "my loop"), ((1.6, 3.2), (0.1, 0.2), (2.0, 1.5))


@pytest.mark.parametrize(
    ("name", "fast_s", "slow_s"),
    [
        pytest.param(name, *speeds, marks=() if index == other else pytest.mark.nightly)
        for index, name in enumerate(NAMES)
        for other, speeds in enumerate(SPEEDS)
    ],
)
@pytest.mark.parametrize("turn", [250, 700])
def test_a_bar_of_means_that_were_steady_at_first_is_read_by_its_clock(
    tmp_path: Path, name: str, fast_s: float, slow_s: float, turn: int
) -> None:
    times = [fast_s] * turn + [slow_s] * (1000 - turn)
    path = tmp_path / "train.log"
    result = refused(path, bar_of(name, times, is_mean=True).encode())

    options = shown(result)

    assert "--averaging=running" in options
    sizes = ["--batch_size_per_device=1", "--world_size=1"]
    assert extracted(path, *options, *sizes).throughput == pytest.approx(
        950 / sum(times[50:]), rel=0.05
    )


@pytest.mark.parametrize("is_mean", [False, True])
@pytest.mark.parametrize(
    "times",
    [[0.9] * 300 + [3.0] * 500, [1.4] * 250 + [0.5] * 700, [0.97, 1.04] * 400],
    ids=["to s/it", "to it/s", "both"],
)
def test_a_bar_that_turns_from_one_unit_to_another_is_not_read_in_part(
    tmp_path: Path, times: list[float], is_mean: bool
) -> None:
    path = tmp_path / "train.log"
    result = refused(path, bar_of("Tuning", times, is_mean=is_mean).encode())
    said = message(result, "unknown-format")

    if "--pattern" not in said:
        assert "turns from one unit to another" in said or "by the bar's own clock" in said
        return
    # A mean may stay in one unit for most of a log.
    sizes = ["--batch_size_per_device=1", "--world_size=1"]
    rate = len(times[50:]) / sum(times[50:])
    assert extracted(path, *shown(result), *sizes).throughput == pytest.approx(rate, rel=0.05)


def test_a_bar_whose_rates_are_not_those_of_its_clock_is_not_read(tmp_path: Path) -> None:
    text = bar_of("Tuning", [0.5] * 400, is_mean=False).replace("2.00it/s", "9.00it/s")

    said = message(refused(tmp_path / "train.log", text.encode()), "unknown-format")

    assert "by the bar's own clock they are 1.99" in said
    assert "--pattern" not in said


def test_a_bar_of_iterations_is_read_where_iterations_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text(bar_of("Fine-tuning", [0.5] * 300, is_mean=False), encoding="utf-8")

    result = extract(path, ParseOptions(in_iterations=True))

    assert "--unit=iterations" in shown(result)
