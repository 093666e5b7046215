"""Iterations a second of logs that print times, whatever an iteration has of work."""

from __future__ import annotations

import io

import pytest

from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.problems import with_remedy
from tests.helpers.log_lines import WRITERS, torchtitan, tqdm
from tests.helpers.log_writer import Writer, log


def read(text: str, *, in_iterations: bool = True) -> LogResult:
    options = ParseOptions(in_iterations=in_iterations)
    return extract_stream(io.BytesIO(text.encode()), "train.log", options)


@pytest.mark.parametrize(
    ("name", "writer"), WRITERS, ids=[f"{n}-{w.__name__}" for n, w in WRITERS]
)
def test_a_format_with_times_gives_iterations(name: str, writer: Writer) -> None:
    result = read(log(writer, iterations=200, seconds=2.0))

    if result.throughput is None:
        assert any(
            "has rates alone" in problem.message or "one rate of the whole run" in problem.message
            for problem in result.problems
        ), result.problems
        return
    assert result.unit == "iterations"
    assert result.throughput == pytest.approx(0.5, rel=0.05)
    assert result.iteration_work == 1
    assert not {"per-device", "unknown-scale"} & {problem.code for problem in result.problems}


@pytest.mark.parametrize("unit", ["it/s", "img/s"])
def test_a_bar_of_samples_counts_no_iterations(unit: str) -> None:
    result = read(log(tqdm, iterations=200).replace("it/s", unit))

    assert (result.throughput is not None) is (unit == "it/s")
    assert unit == "it/s" or "counts work" in result.problems[-1].message


def test_rates_alone_give_no_iterations() -> None:
    result = read(log(torchtitan, iterations=200))

    assert result.throughput is None
    assert "iterations were asked for" in result.problems[-1].message


def test_what_a_log_of_times_lacks_is_said_with_what_needs_none_of_it() -> None:
    modded = {writer.__name__: writer for _, writer in WRITERS}["modded_nanogpt"]

    problem = read(log(modded), in_iterations=False).problems[-1]

    assert problem.code == "unknown-scale"
    assert "--unit=iterations" in with_remedy(problem)
