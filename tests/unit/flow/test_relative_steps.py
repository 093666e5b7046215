"""Steps of logs that have rates alone: seconds only where the work of an iteration is known."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from pytest_dlperf.core.metrics import METRICS
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.flow.user_program import log_run_summary
from pytest_dlperf.measure.logs.extract import extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.report import benchmark_json
from pytest_dlperf.report.page.trace_chart import trace_chart
from tests.helpers.language_lines import olmo
from tests.helpers.log_lines import megatron, torchtitan
from tests.helpers.log_writer import Writer, log
from tests.helpers.report_builders import case, measured

WINDOW = (0, 50)


def run_of(writer: Writer, work: float | None = None) -> RunSummary:
    options = ParseOptions(world_size=1, work_per_device=work)
    stream = io.BytesIO(log(writer, iterations=200).encode())
    return log_run_summary(extract_stream(stream, "train.log", options))


def outcome_of(run: RunSummary) -> Outcome:
    outcome = measured(replace(case(), unit="tokens"), run.throughput)
    assert outcome.measurement is not None
    return replace(outcome, measurement=replace(outcome.measurement, runs=(run,)))


@pytest.mark.parametrize("writer", [torchtitan, olmo])
def test_rates_of_tokens_alone_give_no_seconds(writer: Writer) -> None:
    run = run_of(writer)

    assert run.steps_are_relative
    assert METRICS["step_p95"].value(run, WINDOW) is None
    assert METRICS["fastest_block"].value(run, WINDOW) is None
    outcome = outcome_of(run)
    assert trace_chart(outcome) is None
    assert json.loads(benchmark_json.render([outcome]))["benchmarks"] == []


@pytest.mark.parametrize(("writer", "work"), [(torchtitan, 16.0), (megatron, None)])
def test_with_the_work_of_an_iteration_they_do(writer: Writer, work: float | None) -> None:
    run = run_of(writer, work)

    assert not run.steps_are_relative
    assert min(run.step_seconds) == pytest.approx(0.5)
    assert METRICS["step_p95"].value(run, WINDOW) == pytest.approx(0.5)
    assert trace_chart(outcome_of(run)) is not None


def test_relative_steps_are_in_proportion() -> None:
    slow = run_of(lambda i, s: torchtitan(i, s * (2 if i > 150 else 1)))

    assert max(slow.step_seconds) == pytest.approx(2 * min(slow.step_seconds))
