"""Lines whose meaning is in lines before them: one by one and all at once they say the same."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from pytest_dlperf.measure.logs.clean import lines_with
from pytest_dlperf.measure.logs.declare import InOrder, LogRecord
from pytest_dlperf.measure.logs.events import Latest
from pytest_dlperf.measure.logs.records import Reader
from pytest_dlperf.measure.logs.registry import named
from pytest_dlperf.measure.logs.trained import with_words
from tests.helpers.language_lines import lit_gpt_2023, litgpt
from tests.helpers.log_lines import mlperf_event
from tests.helpers.log_writer import BATCH
from tests.helpers.vision_lines import keras, keras_2, keras_2_seconds, keras_seconds

pytestmark = pytest.mark.newest


def mlperf_line(generator: random.Random, at: int) -> str:
    """Return an event of any kind, often one that the kinds before it do not allow."""
    step = generator.choice([at, at, at + 0.5, 3])
    metadata = generator.choice(
        [
            {},
            {"step": step},
            {"samples_count": BATCH * at},
            {"epoch_num": 512 * BATCH * at},
            {"epoch_count": 512 * BATCH * generator.randint(1, 3), "first_epoch_num": 0},
            {"first_epoch_num": 512 * BATCH * at},
        ]
    )
    key, value = generator.choice(
        [
            ("global_batch_size", generator.choice([BATCH, BATCH, 0])),
            ("max_sequence_length", generator.choice([512, 512, 100, None])),
            ("tracked_stats", {"throughput": 30 + at, "loss": 2.5}),
            ("tracked_stats", {"train_step_time": 0.25 + at / 1000, "loss": 2.5}),
            ("tracked_stats", {"train_step_time": 0.25}),
            ("tracked_stats", {"reduced_train_loss": float("nan")}),
            *[
                (f"{what}_{turn}", None)
                for what in ("block", "eval")
                for turn in ("start", "stop")
            ],
            *[("block_start", None), ("block_stop", None)] * 2,
        ]
    )
    return mlperf_event(key, value, 1000 * at + generator.randint(0, 900), **metadata)


def keras_line(generator: random.Random, at: int) -> str:
    """Return a state of a bar or the line of an epoch."""
    if generator.random() < 0.05:
        return f"Epoch {at // 90 + 1}/9"
    writer = generator.choice([keras, keras, keras_2, keras_seconds, keras_2_seconds])
    line = writer(1 + at % 150, generator.choice([0.2, 0.3, 2.0]))
    return line.replace("loss: 2", generator.choice(["loss: 1", "loss: 3", "val_loss: "]))


def litgpt_line(generator: random.Random, at: int) -> str:
    """Return a print of a micro batch, also one that comes again, or is some further on."""
    return generator.choice([litgpt, lit_gpt_2023])(
        generator.choice([at, at, at - 1, 4 * at]), 0.3
    )


LINES = pytest.mark.parametrize(
    ("name", "line"),
    [
        ("mlperf", mlperf_line),
        ("keras", keras_line),
        ("keras-seconds", keras_line),
        ("litgpt", litgpt_line),
    ],
)
Line = Callable[[random.Random, int], str]


def parser_of(name: str) -> InOrder:
    """Return the parser of one log."""
    in_order = named(name).for_log().in_order
    assert in_order is not None
    return in_order


@LINES
@pytest.mark.parametrize("seed", range(8))
def test_lines_one_by_one_say_what_they_do_at_once(name: str, line: Line, seed: int):
    generator = random.Random(seed)
    texts = [line(generator, at).encode() for at in range(1, 200)]

    one_by_one, all_of_them = parser_of(name), parser_of(name).records(texts)

    assert any(all_of_them)
    assert [one_by_one(text) for text in texts] == all_of_them


@LINES
@pytest.mark.parametrize("lines_of_block", [1, 7, 1000])
def test_the_reader_says_what_the_parser_does(name: str, line: Line, lines_of_block: int):
    generator = random.Random(name)
    texts = [line(generator, at) for at in range(1, 400)]
    # Words beside a record, and of it
    texts[100:100] = ["Gradient overflow. Skipping step"] * 3
    texts[200] += " overflow detected, skipping step"
    texts[300:300] = ["some other words"] * 50
    fmt = with_words(named(name).for_log())
    parse = with_words(named(name).for_log()).parse
    reader = Reader(fmt)

    records: list[LogRecord] = []
    for begin in range(0, len(texts), lines_of_block):
        block = "".join(f"{text}\n" for text in texts[begin : begin + lines_of_block]).encode()
        columns = reader.columns(block)
        records += [columns.row(index).record for index in range(columns.length)]

    whole = "".join(f"{text}\n" for text in texts).encode()
    parsed = [parse(text.text) for text in lines_with(whole, fmt.anchors)]
    assert records == [record for record in parsed if record is not None]
    assert sum(record.skip_word is not None for record in records) == 4


def test_what_is_said_last_counts_until_other_lines_say_more():
    latest, nan = Latest(), np.nan

    first = latest.number_at(np.array([nan, 2.0, nan, 3.0]))
    then = latest.number_before(np.array([nan, 5.0, nan]))
    taken_back = latest.number_at(np.array([nan, nan]), np.array([False, True]))

    assert first.tolist() == pytest.approx([nan, 2, 2, 3], nan_ok=True)
    assert then.tolist() == [3, 3, 5]
    assert taken_back.tolist() == pytest.approx([5, nan], nan_ok=True)
