"""Steps of a program after its window: host stacks without a framework, or an early end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.marked_program import program, settings
from tests.helpers.simulated_gpu import records

#: py-spy, which says that it samples, and writes a stack when it is interrupted.
PY_SPY = f"""#!{sys.executable}
import signal, sys
[file] = [word.partition("=")[2] for word in sys.argv if word.startswith("--output=")]
def write(*_):
    with open(file, "w") as stacks:
        stacks.write('thread (7): "MainThread";<module> (/a/b/train.py:9) 30\\n')
    raise SystemExit
signal.signal(signal.SIGINT, write)
print("py-spy> Sampling process 100 times a second.", flush=True)
while True:
    signal.pause()
"""


def profiles(folder: Path, iterations: int, *, has_py_spy: bool) -> list[dict[str, Any]]:
    """Return the profiles of a program with a window of 12, of which the last counts."""
    (folder / "bin").mkdir()
    if has_py_spy:
        (folder / "bin" / "py-spy").write_text(PY_SPY, encoding="utf-8")
        (folder / "bin" / "py-spy").chmod(0o755)
    mark = settings(folder)._replace(framework="none", profiled_steps=5, sampled_steps=3)
    text = f"for _ in range({iterations}):\n    with step() as s: s.loss(1.0)"
    program(folder, text, DLPERF_MARK=mark.to_json(), PATH=str(folder / "bin"))
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
