"""Steps of a program after its window: host stacks without a framework, or an early end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fake_py_spy import write_py_spy
from tests.helpers.marked_program import program, settings
from tests.helpers.processes import of_runs_in
from tests.helpers.simulated_gpu import records


def profiles(folder: Path, iterations: int, *, has_py_spy: bool) -> list[dict[str, Any]]:
    """Return the profiles of a program with a window of 12, of which the last counts."""
    (folder / "bin").mkdir()
    if has_py_spy:
        write_py_spy(folder / "bin")
    mark = settings(folder)._replace(framework="none", profiled_steps=5, sampled_steps=3)
    text = f"for _ in range({iterations}):\n    with step() as s: s.loss(1.0)"
    environment = {"PATH": str(folder / "bin"), "DLPERF_RUN": str(folder)}
    program(folder, text, DLPERF_MARK=mark.to_json(), **environment)
    return records(folder)["profile"]


def test_without_a_framework_there_are_host_stacks(tmp_path: Path):
    *_, last = profiles(tmp_path, 24, has_py_spy=True)
    [stack] = last["stacks"]
    assert stack["frames"] == "<module> (b/train.py:9)"
    assert stack["seconds"] == pytest.approx(0.1), "30 of 100 samples a second, over 3 steps"
    assert records(tmp_path)["end"]


def test_without_py_spy_as_well_it_says_what_would_help(tmp_path: Path):
    *_, last = profiles(tmp_path, 24, has_py_spy=False)
    assert "pip install py-spy" in last["problem"]
    assert records(tmp_path)["end"], "the training was a whole one"


def test_a_program_that_ends_before_says_which_number_it_needs(tmp_path: Path):
    [only] = profiles(tmp_path, 13, has_py_spy=True)
    assert "it must train 24 iterations" in only["problem"]
    assert "{iterations}" in only["problem"]
    assert of_runs_in(tmp_path) == [], "py-spy ended with the program"
