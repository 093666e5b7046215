"""By columns and at once, or line by line and one by one: any log says the same."""

from __future__ import annotations

import io
import os
import random
from dataclasses import asdict, replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.registry import named
from pytest_dlperf.measure.logs.timeline import Timeline
from tests.helpers.log_lines import WRITERS
from tests.helpers.log_writer import BATCH, Writer
from tests.unit.measure.test_log_columns import assert_same

pytestmark = pytest.mark.once

#: Some seconds of them; ``tox -e fuzz`` sets many more.
EXAMPLES = int(os.environ.get("DLPERF_FUZZ_EXAMPLES", "2000")) // 40
WORDS = (
    "some other words",
    "",
    " overflow detected, skipping step",
    "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 8192.0",
    "train loss is nan",
    "INFO Iter(val) [100] mIoU: 0.41",
    "***** Running Evaluation *****",
    "{'loss': nan, 'grad_norm': 1.2}",
    "{'loss': 0.0}",
    "{'train_runtime': 100.5, 'train_samples_per_second': 15.9}",
    " 50%|##   | 20/40 [00:05<00:59,  4.00it/s]",
    "Validating: 10%|",
    "Epoch 1/1",
)
KINDS = ("broken", "again", "late", "back", "gap", "words", "other", "tags", "lost")
ENDS = ("\n", "\r\n", "\r", "\n\n")


def log_of(writer: Writer, kinds: set[str], end: str, seed: int) -> bytes:
    """Return a log with faults of these kinds, each at one line in thirty."""
    generator = random.Random(seed)
    lines: list[str] = []
    step, in_all_s, each_s = 0, 0.0, generator.choice([0.4, 0.01, 5.0])
    ranks = generator.choice([2, 8])
    while len(lines) < 400:
        in_all_s += generator.uniform(each_s, 1.5 * each_s)
        line = writer(step, in_all_s / (step + 1))
        step += 1
        chosen = {kind for kind in sorted(kinds) if generator.random() < 1 / 30}
        if "tags" in kinds:
            lines += [f"[default{rank}]:{line}" for rank in range(ranks)]
            continue
        if "broken" in chosen:
            at = generator.randrange(len(line) + 1)
            line = line[:at] + generator.choice(["", "9", ",", "\n", "nan"]) + line[at + 1 :]
        if "lost" in chosen:
            line = line.replace("loss: ", "loss: nan ").replace("loss=", "loss=nan ")
        lines += [line] * (ranks if "again" in kinds else 1)
        if "late" in chosen and len(lines) > 3:
            lines.append(lines[-generator.choice([2, 3])])
        if "back" in chosen and generator.random() < 0.2:
            step, in_all_s = generator.choice([0, step // 2]), 0.0
        if "gap" in chosen:
            step += generator.choice([1, 9])
        if "words" in chosen:
            lines.append(generator.choice(WORDS))
        if "other" in chosen:
            lines.append(generator.choice(WRITERS)[1](step, 0.5))
    return end.join(lines).encode()


def read(data: bytes, name: str, block: int, **changes: Any) -> LogResult:
    options = ParseOptions(
        fmt=replace(named(name), **changes), world_size=1, batch_size_per_device=BATCH
    )
    return extract_stream(io.BytesIO(data), "train.log", options, block)


def assert_either_way(data: bytes, name: str, block: int) -> None:
    at_once = read(data, name, block)
    with patch.object(Timeline, "_add_at_once", lambda *_: False):
        one_by_one = read(data, name, block, by_shape=False)
    assert_same(asdict(at_once), asdict(one_by_one))


@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(WRITERS),
    st.sets(st.sampled_from(KINDS), max_size=4),
    st.sampled_from(ENDS),
    st.integers(0, 1000),
    st.sampled_from([1 << 20, 1 << 14]),
)
def test_logs_with_faults(
    program: tuple[str, Writer], kinds: set[str], end: str, seed: int, block: int
) -> None:
    name, writer = program
    assert_either_way(log_of(writer, kinds, end, seed), name, block)


@pytest.mark.parametrize(
    ("name", "writer"), WRITERS, ids=lambda value: getattr(value, "__name__", value)
)
@pytest.mark.parametrize(
    "kinds", [{"again", "late"}, {"broken", "words"}], ids=lambda k: "-".join(sorted(k))
)
def test_every_format_with_faults(name: str, writer: Writer, kinds: set[str]) -> None:
    assert_either_way(log_of(writer, kinds, "\r\n", 1), name, 1 << 20)
