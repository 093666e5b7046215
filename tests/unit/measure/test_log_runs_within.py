"""Runs that follow each other in one log while its steps go on, by words between them."""

from __future__ import annotations

import io

import pytest

from pytest_dlperf.core.log_pattern import pattern
from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern
from tests.helpers.log_lines import torchtitan
from tests.helpers.log_writer import log

pytestmark = pytest.mark.once

PATTERN = pattern(r"step (?P<step>\d+) .* (?P<rate>\S+) samples/s")


def by_pattern(head: list[str], between: list[str], block: int = 1 << 20) -> LogResult:
    def steps(begin: int, end: int) -> list[str]:
        return [f"step {i} loss 2.{i % 10} 500.0 samples/s" for i in range(begin, end)]

    text = "\n".join([*head, *steps(1, 200), *between, *steps(200, 400)]) + "\n"
    options = ParseOptions(fmt=format_of_pattern(PATTERN))
    return extract_stream(io.BytesIO(text.encode()), "train.log", options, block)


def by_format(between: list[str]) -> LogResult:
    lines = log(torchtitan, iterations=200).splitlines()
    text = "\n".join([*lines[:100], *between, *lines[100:]]) + "\n"
    return extract_stream(io.BytesIO(text.encode()), "train.log", ParseOptions())


def is_refused(result: LogResult) -> bool:
    codes = {problem.code for problem in result.problems}
    return "several-runs" in codes and result.throughput is None


RESTARTS = (
    "Resuming from checkpoint",
    "Loaded checkpoint 'ckpt_300.pt', resuming training at step 300",
    "INFO: Resumed training from epoch 3",
    "Restarting the training run from ckpt-200",
    "Restarted from the last checkpoint",
    "slurmstepd: error: *** JOB 1 CANCELLED DUE TO PREEMPTION ***",
)


@pytest.mark.parametrize("block", [2000, 1 << 20])
@pytest.mark.parametrize("words", RESTARTS)
def test_words_of_a_restart_are_heard_between_steps_of_a_pattern(words: str, block: int) -> None:
    assert is_refused(by_pattern([], [words], block))
    assert is_refused(by_pattern([words], [words], block))
    assert by_pattern([words], [], block).throughput == pytest.approx(500.0)


@pytest.mark.parametrize("words", RESTARTS)
def test_words_of_a_restart_are_heard_in_a_known_format(words: str) -> None:
    assert is_refused(by_format([words]))


@pytest.mark.parametrize(
    "words",
    [
        "Resuming from data shard 12",
        "Evaluation done, resuming training",
        "Saved a checkpoint; resuming training",
        "Restarted worker 3 of the loader",
        "The learning rate restarted from 0.1",
        "Cosine schedule restarted at step 200",
        "num_nodes: 1204\nnum_nodes: 977",
    ],
)
def test_what_else_goes_on_is_no_restart(words: str) -> None:
    assert by_pattern([], [words]).throughput == pytest.approx(500.0)


@pytest.mark.parametrize(
    "words",
    [
        "num_gpus: {}",
        "world_size={}",
        "World size: {}, rank 0",
        '{{"n_gpus": {}}}',
        "WORLD_SIZE={}",
        "Launching on {} GPUs",
        "number of devices: {}",
    ],
)
@pytest.mark.parametrize("block", [2000, 1 << 20])
def test_other_devices_between_steps_are_of_another_run(words: str, block: int) -> None:
    few, many = words.format(8), words.format(16)
    config = [few, *["a line of a configuration"] * 200]

    assert is_refused(by_pattern(config, [many], block))
    assert is_refused(by_format([few, *log(torchtitan, iterations=20).splitlines()[-1:], many]))
    assert by_pattern(config, [few], block).throughput == pytest.approx(500.0)
    # Groups of devices come before the first step.
    assert by_pattern([many, *config], [many], block).throughput == pytest.approx(500.0)


@pytest.mark.parametrize("words", ["Evaluating: num_gpus: 1", "test: world_size=1"])
def test_devices_of_an_evaluation_are_of_no_other_run(words: str) -> None:
    assert by_pattern(["num_gpus: 8", "world_size=8"], [words]).throughput == pytest.approx(500.0)
