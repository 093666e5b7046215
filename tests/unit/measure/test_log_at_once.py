"""Records counted at once or one by one: the windows are the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_dlperf.measure.logs.clean import plain
from pytest_dlperf.measure.logs.records import Columns, Reader
from pytest_dlperf.measure.logs.registry import named
from pytest_dlperf.measure.logs.running import Progress, RunningState
from pytest_dlperf.measure.logs.steady import count_at_once
from pytest_dlperf.measure.logs.timeline import Counted, Timeline
from tests.helpers.log_lines import deepspeed, imagenet, torchtitan, tsm
from tests.helpers.log_writer import Writer

pytestmark = pytest.mark.newest


def timeline(lines: list[str], name: str, *, at_once: bool, block: int = 400) -> Timeline:
    fmt = named(name)
    reader, counting = Reader(fmt), Timeline(fmt, Counted())
    if not at_once:
        counting._add_at_once = lambda _columns: False  # type: ignore[method-assign]
    for begin in range(0, len(lines), block):
        text = "".join(f"{line}\n" for line in lines[begin : begin + block])
        counting.add(reader.columns(plain(text.encode())))
    return counting


def assert_same(lines: list[str], name: str) -> None:
    one, other = (timeline(lines, name, at_once=at_once) for at_once in (True, False))
    mine, theirs = one.windows.columns(), other.windows.columns()
    for column in mine:
        np.testing.assert_allclose(mine[column], theirs[column], rtol=1e-9, err_msg=column)

    def said(counting: Timeline) -> tuple[Any, ...]:
        ranks = counting.ranks
        return (
            *(counting.loss_last, counting.runs, counting.prints, counting.steps),
            *(ranks.lines, ranks.repeats, ranks._most_prints, ranks.better_lead),
            *(counting.coarse, counting.iterations, counting.last_step),
        )

    assert said(one) == said(other)


def tagged(writer: Writer, order: Callable[[list[int]], list[tuple[int, int]]]) -> list[str]:
    generator = random.Random(3)
    return [
        f"[default{rank}]:{writer(i, generator.uniform(0.4, 0.5))}"
        for i, rank in order([*range(300)])
    ]


@pytest.mark.once
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 9), st.booleans())
def test_tagged_ranks(seed: int, ranks: int, is_late: bool) -> None:
    """In any order within a step, and one that is a step behind now and then."""
    generator = random.Random(seed)
    prints = []
    for i in range(300):
        for rank in generator.sample(range(ranks), ranks):
            late = is_late and rank > 1 and generator.random() < 0.2
            prints.append((i + (generator.uniform(0.9, 1.9) if late else 0), i, rank))
    # No rank writes a step before its last one.
    prints.sort(key=lambda row: row[0])
    lines = [
        f"[default{rank}]:{deepspeed(i, generator.uniform(0.4, 0.5))}" for _, i, rank in prints
    ]
    assert_same(lines, "deepspeed")


@pytest.mark.parametrize("ranks", [1, 8])
def test_ranks_are_taken_in_at_once(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [
        f"[default{rank}]:{torchtitan(i, 0.5)[8:]}" for i in range(500) for rank in range(ranks)
    ]
    counted = []
    add = Timeline._add_at_once

    def watched(*arguments: Any) -> bool:
        counted.append(add(*arguments))
        return counted[-1]

    monkeypatch.setattr(Timeline, "_add_at_once", watched)
    timeline(lines, "torchtitan", at_once=True, block=1000)
    assert counted
    assert all(counted)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 1000),
    st.sampled_from([("imagenet", imagenet), ("tsm", tsm)]),
    st.sampled_from([1, 3, 10]),
    st.sampled_from([0.0005, 0.02, 0.3]),
)
def test_means_that_are_rounded(
    seed: int, program: tuple[str, Writer], interval: int, each_s: float
) -> None:
    generator = random.Random(seed)
    name, writer = program
    lines = []
    for epoch in range(3):
        seconds = 0.0
        for i in range(600):
            seconds += generator.uniform(each_s, 2 * each_s)
            if i % interval == 0:
                lines.append(
                    writer(i, seconds / (i + 1)).replace("Epoch: [0]", f"Epoch: [{epoch}]")
                )
    assert_same(lines, name)


def test_one_mean_that_begins_an_epoch() -> None:
    before = RunningState(count=600, seconds=300.0, warm=True)
    progress = Progress(step=599, epoch=0, counted=600, running=before)
    numbers = {"step": 9.0, "epoch": 1.0, "seconds": 0.25}
    columns = Columns(1, {name: np.array([number]) for name, number in numbers.items()})

    counted = count_at_once(columns, progress, named("imagenet"), None)

    assert counted is not None
    assert (counted.first.tolist(), counted.last.tolist()) == ([601], [610])
    assert counted.windows["seconds_each"].tolist() == [0.25]
