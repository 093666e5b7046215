"""Keras's bars of steps of a second and more: the time that is left of an epoch says how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from tests.helpers.log_writer import Writer
from tests.helpers.vision_lines import keras_2_seconds, keras_seconds

STEPS = 300


def read(tmp_path: Path, text: str) -> LogResult:
    path = tmp_path / "train.log"
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return extract(path, ParseOptions(batch_size_per_device=16, world_size=1))


@pytest.mark.parametrize("writer", [keras_seconds, keras_2_seconds])
@pytest.mark.parametrize("seconds", [1.0, 1.3, 2.0, 17.25])
def test_whole_seconds_are_read_by_what_is_left(
    tmp_path: Path, writer: Writer, seconds: float
) -> None:
    text = "\n".join(writer(i, seconds) for i in range(STEPS))

    result = read(tmp_path, text)

    assert result.format == "keras-seconds"
    assert result.throughput == pytest.approx(16 / seconds, rel=0.02)
    assert result.iterations == pytest.approx(100, abs=10)


def test_the_time_of_a_validation_is_in_none_of_them(tmp_path: Path) -> None:
    """The last state of an epoch has it."""
    bars = [keras_seconds(i, 2.0) for i in range(STEPS - 1)]
    end = f"{STEPS}/{STEPS} ━━━━━━ 1800s 6s/step - loss: 2.1 - val_accuracy: 0.1 - val_loss: 2.2"
    epochs = [
        "\n".join([*bars, end]).replace("Epoch 1/1", f"Epoch {epoch}/3") for epoch in (1, 2, 3)
    ]

    result = read(tmp_path, "\n".join(epochs))

    assert result.throughput == pytest.approx(8, rel=0.02)


@pytest.mark.parametrize(("writer", "seconds"), [(keras_2_seconds, 0.05), (keras_seconds, 0.2)])
def test_a_step_of_milliseconds_is_not_read_by_few_seconds(
    tmp_path: Path, writer: Writer, seconds: float
) -> None:
    text = "\n".join(writer(i, seconds) for i in range(STEPS))

    assert read(tmp_path, text).throughput is None


def test_a_step_of_milliseconds_is_read_by_many_seconds_that_are_left(tmp_path: Path) -> None:
    text = "\n".join(keras_2_seconds(i, 0.25) for i in range(STEPS))

    assert read(tmp_path, text).throughput == pytest.approx(16 / 0.25, rel=0.03)
