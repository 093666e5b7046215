"""The file of pytest-benchmark has the seconds that an iteration took."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.measure.summary import summarise
from pytest_dlperf.report import benchmark_json
from tests.helpers.record_files import case as recorded
from tests.helpers.record_files import rank_records, write
from tests.helpers.report_builders import case, measured


def mean_of(outcome: Outcome) -> float:
    [found] = json.loads(benchmark_json.render([outcome]))["benchmarks"]
    return float(found["stats"]["mean"])


def test_seconds_are_those_measured_where_ranks_say_another_work_than_the_case(tmp_path: Path):
    ranks = [rank_records(0, seconds=0.2), rank_records(1, seconds=0.1)]
    for record in ranks[0] + ranks[1]:
        if record["record"] == "span":
            record["work"] = 32.0  # the case says 4
    run, _ = summarise(recorded(), write(tmp_path, ranks))
    outcome = measured(recorded(), 1.0)
    assert outcome.measurement is not None
    outcome = replace(outcome, measurement=replace(outcome.measurement, runs=(run,)))
    assert run.throughput == pytest.approx(64 / 0.2)
    assert mean_of(outcome) == pytest.approx(0.2)


def test_seconds_of_a_log_are_the_work_over_its_rate():
    assert mean_of(measured(case(), 80.0)) == pytest.approx(case().global_batch_size / 80)


def test_a_log_without_seconds_or_work_is_not_in_the_file():
    tokens = replace(case(), unit="tokens")
    outcome = measured(tokens, 80.0)
    assert outcome.measurement is not None
    run = replace(outcome.measurement.runs[0], step_seconds=())
    outcome = replace(outcome, measurement=replace(outcome.measurement, runs=(run,)))
    assert json.loads(benchmark_json.render([outcome]))["benchmarks"] == []
    assert benchmark_json.remark([outcome]) == "without 1 of 1 cases, which have no rate"
