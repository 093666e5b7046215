"""The window goes in blocks, and the machine's speed is sampled at their ends."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.worker import machine_speed
from pytest_dlperf.worker.frameworks.base import FixedStep
from pytest_dlperf.worker.machine_speed import SpeedSampled, blocks_of
from pytest_dlperf.worker.records import RecordWriter

WORK_S = 0.004


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Host:
    """What the processes of a rank do while it waits; threads spin until ``spin_until_s``."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.background_cores, self.spin_until_s, self.has_started = 0.0, 0.0, False

    def sample(self) -> SimpleNamespace:
        now_s = self.clock.now_s
        cpu_s = self.background_cores * now_s + min(now_s, self.spin_until_s)
        return SimpleNamespace(wall_s=now_s, own_cpu_s=cpu_s)

    def has_children(self) -> bool:
        return self.has_started


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Host:
    found = Host(clock)
    monkeypatch.setattr(machine_speed, "time", clock)
    monkeypatch.setattr(machine_speed, "sample", found.sample)
    monkeypatch.setattr(machine_speed, "has_children", found.has_children)
    return found


class Ranks:
    """A framework whose fixed work takes ``work_s``; other ranks have ``others_typical_s``."""

    def __init__(self, clock: Clock, *, world_size: int = 1, work_s: float = WORK_S) -> None:
        self.clock, self.work_s = clock, work_s
        self.job = SimpleNamespace(world_size=world_size, feed=SimpleNamespace(used=False))
        self.calls: list[str] = []

    def fixed_step(self) -> FixedStep:
        return FixedStep("toy 1.0", self._work)

    def _work(self) -> None:
        self.calls.append("work")
        self.clock.now_s += self.work_s

    def all_reduce_of(self, size_bytes: int) -> Any:
        assert size_bytes > 0

        def reduce() -> None:
            self.calls.append("all-reduce")
            self.clock.now_s += self.work_s

        return reduce

    def barrier(self) -> None:
        self.calls.append("barrier")

    def mean_over_ranks(self, value: float) -> float:
        self.calls.append("mean")
        return 2 * value


def trained(
    ranks: Ranks,
    folder: Path,
    *,
    step_s: float,
    window: range = range(50, 150),
    polls: bool = False,
    in_block: Callable[[], None] = lambda: None,
) -> tuple[list[range], dict[str, Any]]:
    """Train the blocks of a window; return them, and the record."""
    turns, found = SpeedSampled(ranks, polls=polls), []  # type: ignore[arg-type]
    for block in turns.of(window, typical_s=step_s):
        found.append(block)
        ranks.calls.append("train")
        ranks.clock.now_s += step_s * len(block)
        in_block()
    writer = RecordWriter(folder, 0)
    turns.write(writer)
    writer.close()
    lines = (folder / "rank00000.jsonl").read_text("utf-8").splitlines()
    return found, json.loads(lines[0]) if lines else {}


@pytest.mark.parametrize("iterations", [20, 100, 130, 1000])
@pytest.mark.parametrize("step_s", [0.001, 0.006, 0.1, 2.0])
@pytest.mark.parametrize("work_s", [0.001, 0.004, 0.02])
def test_samples_take_a_tenth_of_the_window_or_50_ms_at_most(
    iterations: int, step_s: float, work_s: float
):
    blocks = blocks_of(iterations, step_s, work_s)
    window_s = iterations * step_s
    most_s = min(window_s, max(0.1 * window_s, 0.05))
    if blocks is None:
        # Three samples of two repetitions would take more
        assert 6 * work_s > most_s
        return
    count = math.ceil(iterations / blocks.iterations)
    assert blocks.repetitions >= 2
    assert count >= 2
    spent_s = (count + 1) * blocks.repetitions * work_s
    assert spent_s <= most_s * (1 + 1e-9)
    if iterations * step_s >= 8 * 0.5:
        assert blocks.iterations * step_s <= max(0.5 + step_s, 4 * step_s)


def test_each_block_is_between_two_samples(tmp_path: Path, clock: Clock):
    ranks = Ranks(clock)
    blocks, record = trained(ranks, tmp_path, step_s=0.006)
    assert [i for block in blocks for i in block] == list(range(50, 150))
    assert record["first_steps"] == [block.start for block in blocks]
    assert len(record["seconds"]) == len(blocks) + 1
    each = record["repetitions"]
    assert record["seconds"] == pytest.approx([each * WORK_S] * len(record["seconds"]))
    assert record["work"].startswith("toy 1.0 ")
    sample = ["barrier", *["work"] * each]
    begin = ranks.calls.index("barrier")
    assert ranks.calls[begin:] == [*sample, *["train", *sample] * len(blocks)]


def test_other_variables_are_another_work(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    names = []
    of_the_work = ("OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY", "JAX_DEBUG_NANS", "FLAGS_use_mkldnn")
    of_the_launch = ("TF_CONFIG", "JAX_LOCAL_DEVICE_IDS", "FLAGS_selected_cpus")
    for variable in (*of_the_work, *of_the_launch, None):
        if variable is not None:
            monkeypatch.setenv(variable, "7")
        names.append(trained(Ranks(clock), tmp_path, step_s=0.006)[1]["work"])
        if variable is not None:
            monkeypatch.delenv(variable)
    *others, plain = names
    assert len({plain, *others[: len(of_the_work)]}) == 1 + len(of_the_work)
    assert set(others[len(of_the_work) :]) == {plain}


def test_a_step_that_was_guessed_badly_makes_no_long_samples(tmp_path: Path, clock: Clock):
    """The warm-up had its compiling step alone."""
    _, record = trained(Ranks(clock), tmp_path, step_s=15.0, window=range(2, 12))
    assert 0.09 < max(record["seconds"]) < 0.1 + 1e-6


def test_ranks_choose_alike_and_reduce_in_each_repetition(tmp_path: Path, clock: Clock):
    ranks = Ranks(clock, world_size=2)
    _, record = trained(ranks, tmp_path, step_s=0.01)
    assert ranks.calls.count("mean") == 4
    assert ranks.calls.count("all-reduce") == ranks.calls.count("work")
    assert record["seconds"][0] == pytest.approx(record["repetitions"] * 2 * WORK_S)


def test_a_window_that_is_too_short_is_one_block_without_samples(tmp_path: Path, clock: Clock):
    blocks, record = trained(Ranks(clock), tmp_path, step_s=0.0002)
    assert blocks == [range(50, 150)]
    assert not record


def test_a_rank_that_computes_while_it_waits_is_not_sampled(
    tmp_path: Path, clock: Clock, host: Host
):
    host.background_cores = 0.3
    blocks, record = trained(Ranks(clock), tmp_path, step_s=0.006)
    assert (blocks, record) == ([range(50, 150)], {})
    # Unless the framework does it
    assert trained(Ranks(clock), tmp_path, step_s=0.006, polls=True)[1]
    host.background_cores = 0.1
    assert trained(Ranks(clock), tmp_path, step_s=0.006)[1]


def test_threads_that_spin_after_their_work_do_not_compute(
    tmp_path: Path, clock: Clock, host: Host
):
    host.spin_until_s = 0.2
    assert trained(Ranks(clock), tmp_path, step_s=0.006)[1]


def test_loaders_that_start_with_the_steps_are_seen(tmp_path: Path, clock: Clock, host: Host):
    def start() -> None:
        host.has_started = True

    blocks, record = trained(Ranks(clock), tmp_path, step_s=0.006, in_block=start)
    assert len(blocks) > 1
    assert not record
    assert trained(Ranks(clock), tmp_path, step_s=0.006) == ([range(50, 150)], {})
    host.has_started = False
    ranks = Ranks(clock)
    ranks.job.feed.used = True
    assert trained(ranks, tmp_path, step_s=0.006) == ([range(50, 150)], {})
