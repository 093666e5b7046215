"""Results files of several jobs or machines are one session."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.cli import main
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.core.measurement import Conditions, Environment, Measurement
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Judgement, Verdict
from pytest_dlperf.report import json_


def outcome(suite: str, rate: float) -> Outcome:
    case = Case(
        suite=suite, framework="torch", precision="fp32", batch_size_per_device=4,
        layout=Layout.parse("1n1c"), workload="m:build", size="tiny",
    )  # fmt: skip
    conditions = Conditions(
        window=(50, 150), launcher="local", world_size=1, batch_size_per_device=4,
        unit="samples", dtype="float32", data="synthetic", parameter_count=10,
        input_shapes=((4, 3),), options={}, threads_per_rank=1, host_sharing=False,
        hardware="2x-cpu", version=1,
    )  # fmt: skip
    run = RunSummary(
        throughput=rate, estimates={"median_step": rate}, elapsed_s=1.0, canary={}, ranks=(),
        step_seconds=(4 / rate,) * 100, peak_memory_bytes=None, time_to_first_step_s=1.0,
        others_cpu_share=None,
    )  # fmt: skip
    return Outcome(
        case=case,
        judgement=Judgement(verdict=Verdict.NO_BASELINE, reason=""),
        measurement=Measurement(
            case_id=case.id, unit="samples", conditions=conditions,
            runs=tuple(replace(run, throughput=rate * (1 + i / 1000)) for i in range(5)),
        ),
        environment=Environment(
            machine_class="2x-cpu", hardware="2x-cpu", node="n1", software={}, machine={}
        ),
        time="2026-01-02T03:04:05Z",
        commit="0" * 40,
    )  # fmt: skip


@pytest.fixture
def shards(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    json_.write(first, [outcome("a", 100.0)])
    json_.write(second, [outcome("b", 200.0)])
    return first, second


def test_judge_takes_several_files_as_one_session(tmp_path, shards, capsys):
    base = tmp_path / "base.json"
    json_.write(base, [outcome("a", 100.0), outcome("b", 400.0)])
    main(["judge", str(base), *map(str, shards), "--json", "--tolerance=10%"])
    values = json.loads(capsys.readouterr().out)
    found = {o["case"]["suite"]: o["judgement"]["change"] for o in values["outcomes"]}
    assert found == {"a": pytest.approx(0), "b": pytest.approx(-0.5)}


def test_accept_takes_several_files_as_one_session(tmp_path, shards, capsys):
    folder = f"--baselines={tmp_path / 'baselines'}"
    assert main(["baselines", "accept", *map(str, shards), folder]) == 0
    changes, later = (lines := capsys.readouterr().out.splitlines())[:2], lines[2:]
    assert all(line.startswith("created") for line in changes)
    assert len(later) == 2
    assert all("a later session of 5 runs can detect" in line for line in later)
    assert len(list(tmp_path.glob("baselines/2x-cpu/*/*.json"))) == 2


def test_report_takes_several_files(shards, capsys):
    assert main(["report", *map(str, shards), "--json"]) == 0
    text = capsys.readouterr().out
    assert '"a' in text


@pytest.mark.parametrize("command", ["judge", "accept"])
def test_a_case_in_two_files_is_an_error_that_names_both(tmp_path, shards, capsys, command: str):
    again = tmp_path / "again.json"
    json_.write(again, [outcome("a", 100.0)])
    words = (
        ["judge", str(shards[1]), str(shards[0]), str(again)]
        if command == "judge"
        else ["baselines", "accept", str(shards[0]), str(again), f"--baselines={tmp_path}/b"]
    )
    assert main(words) == 2
    said = capsys.readouterr().err
    assert f"is in {shards[0]} and in {again}" in said
    assert not (tmp_path / "b").exists()


def test_a_file_that_is_named_twice_counts_once(shards):
    assert len(json_.read_shards([shards[0], shards[0]])) == 1
