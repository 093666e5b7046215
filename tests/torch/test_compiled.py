"""What torch.compile did is recorded, and within the window it makes a case unsteady."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import HERE
from tests.torch.counted import FORMS

pytestmark = pytest.mark.torch


#: Of the compiler that is installed: before and after it compiles one function twice, and after
#: one that it leaves to Python.
COUNTERS = """
import json, torch
from pytest_dlperf.worker import compiling
from pytest_dlperf.worker.frameworks.torch.watch import compiles

function = torch.compile(lambda x: torch.relu(x) + 1, backend="eager", dynamic=False)
made = compiles()
function(torch.ones(2))
function(torch.ones(3))
twice = [made, compiling.sample()._asdict(), compiling.graphs()]

@torch.compile(backend="eager")
def looped(x):
    for _ in range(2):
        torch._dynamo.graph_break()
        x = torch.relu(x)
    return x

looped(torch.ones(2))
print(json.dumps([twice, compiling.graphs()]))
"""


@pytest.fixture(scope="module")
def counters() -> list[Any]:
    """What is counted of a function that is compiled twice, and with one more that breaks."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTERS], capture_output=True, text=True, check=True
    )
    found: list[Any] = json.loads(done.stdout)
    return found


def test_the_installed_pytorch_has_the_counters_that_are_read(counters: list[Any]):
    """They are not part of its API: where one is renamed, nothing would be counted, silently."""
    made, sample, graphs = counters[0]
    assert made, "a function that was not called yet is not seen"
    seconds = sample.pop("seconds")
    assert seconds > 0
    assert sample == {"frames": 2, "compilations": 2}
    assert graphs == {
        "graphs": 2, "graph_breaks": 0, "operators": 4, "cudagraph_skips": 0, "recompiles": 1,
        "operators_by_graph": [2, 2],
    }  # fmt: skip


def test_a_function_that_is_left_to_python_is_a_graph_break(counters: list[Any]):
    """Dynamo leaves a function to Python that breaks within a loop, and counts no break."""
    (_, _, before), after = counters
    assert after["graphs"] == before["graphs"]
    assert after["graph_breaks"] == before["graph_breaks"] + 1


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> OneSession:
    """Trainings whose shapes never change, change in the window, and in the watched iteration."""
    common = {"workload": "compiled:build", "layout": "1n1c"}
    return run_together(
        tmp_path_factory.mktemp("compiled"),
        {
            "steady": common,
            "in_window": {**common, "options": {"new_shape_at": 20}},
            "watched": {**common, "options": {"new_shape_at": 5}},
        },
        workloads=HERE,
    )


@pytest.mark.nightly  # the gate has its main way
def test_compiling_before_the_window_is_recorded(compiled: OneSession):
    outcome = compiled["steady"].outcome
    for run in outcome["measurement"]["runs"]:
        assert run["extras"]["compile_seconds"] > 0
        assert run["extras"]["compiled_frames"] >= 1
        assert run["extras"]["recompiles_in_window"] == 0
        assert "recompiled" not in {p["code"] for p in run["problems"]}


def test_a_recompile_within_the_window_is_unsteady(compiled: OneSession):
    outcome = compiled["in_window"].outcome
    for run in outcome["measurement"]["runs"]:
        assert run["extras"]["recompiles_in_window"] == 1
        assert 0 < run["extras"]["compile_seconds_in_window"] < run["extras"]["compile_seconds"]
    problems = {p["code"]: p["message"] for p in outcome["measurement"]["problems"]}
    assert "torch.compile compiled 1 frame within the measured window" in problems["recompiled"]
    # Unless somebody used this machine all the time, which counts before it.
    expected = "incomparable" if "disturbed" in problems else "unsteady"
    assert outcome["judgement"]["verdict"] == expected


def test_what_watches_the_arithmetic_leaves_compiled_functions_compiled(compiled: OneSession):
    """Compiled once before the watched iteration, and not again, nor never again, after it."""
    outcome = compiled["watched"].outcome
    for run in outcome["measurement"]["runs"]:
        assert run["extras"]["compiled_frames"] == 2
    assert outcome["measurement"]["conditions"]["dtype"] == "float32"


#: Of a case, and the first of its measured window.
ITERATIONS, WARMUP = 30, 10


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> tuple[OneSession, Path]:
    """A training of each form, and the folder with the graphs of each of its iterations."""
    counts = tmp_path_factory.mktemp("counts")
    tests = {
        form: {
            "workload": "counted:build", "layout": "1n1c", "iterations": ITERATIONS,
            "warmup": WARMUP, "options": {"form": form, "iterations": ITERATIONS},
        }
        for form in FORMS
    }  # fmt: skip
    path, environment = tmp_path_factory.mktemp("counted"), {"DLPERF_COUNTS": str(counts)}
    return run_together(path, tests, workloads=HERE, environment=environment), counts


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[list[int]]]]:
    """The graphs of each iteration of each form's training without pytest-dlperf."""
    folder = tmp_path_factory.mktemp("bare")
    command = [sys.executable, str(HERE / "counted.py"), str(ITERATIONS), *FORMS]
    subprocess.run(command, env={**os.environ, "DLPERF_COUNTS": str(folder)}, check=True)
    return {form: json.loads((folder / f"{form}.json").read_text()) for form in FORMS}


def runs_of(iterations: list[list[list[int]]]) -> list[tuple[int, int]]:
    """Return each graph's operators, and how often it ran in the measured window."""
    before, after = iterations[WARMUP - 1], iterations[-1]
    runs = [(end[0], end[1] - begin[1]) for begin, end in zip(before, after, strict=True)]
    return [(operators, count) for operators, count in runs if count]


@pytest.mark.nightly  # the gate has its main way
@pytest.mark.parametrize("form", FORMS)
def test_the_window_measures_the_graphs_that_the_training_has_by_itself(
    counted: tuple[OneSession, Path], bare: dict[str, list[list[list[int]]]], form: str
):
    session, folder = counted
    outcome = session[form].outcome
    assert outcome["judgement"]["verdict"] != "error", outcome["judgement"]["reason"]
    iterations = json.loads((folder / f"{form}.json").read_text())
    measured = runs_of(iterations)
    assert measured == runs_of(bare[form])
    assert all(runs == ITERATIONS - WARMUP for _, runs in measured)
    operators = [count for count, _ in iterations[-1]]
    [run] = outcome["measurement"]["runs"] or outcome["measurement"]["disturbed_runs"]
    assert run["extras"]["compiled_graphs"] == len(operators)
    assert run["extras"]["compiled_operators"] == sum(operators)
    # What the first iteration itself compiles is compiled again: nobody knew of it before.
    assert run["extras"]["recompiles"] == len(operators) - len(measured) == (form == "late")
    assert (run["extras"]["graph_breaks"] > 0) == (form == "step")
    [file] = session.folder.path.glob(f".dlperf/*/{outcome['case']['id']}/run1/rank00000.jsonl")
    records = [json.loads(line) for line in file.read_text().splitlines()]
    [compiled] = [record for record in records if record["record"] == "compile"]
    assert compiled["operators_by_graph"] == operators


@pytest.mark.nightly  # the gate has its main way
@pytest.mark.parametrize("form", FORMS)
def test_shapes_and_arithmetic_of_what_is_compiled_are_known(
    counted: tuple[OneSession, Path], form: str
):
    measurement = counted[0][form].measurement
    assert measurement["conditions"]["input_shapes"] == [[8, 32]]
    assert measurement["conditions"]["dtype"] == "float32"
    codes = {problem["code"] for problem in measurement["problems"]}
    assert not codes & {"batch-unchecked", "precision-unchecked", "recompiled"}
