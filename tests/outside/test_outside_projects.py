"""Packages of others, gated from outside in ten lines: a baseline, then unchanged, then slower."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.perf_project import PerfProject

EXAMPLES = Path(__file__).parents[2] / "examples/outside"
#: By the example, which has the package's name: the files that a project had before; the unit,
#: and its work in an iteration; by how much an update is to become slower.
PROJECTS = {
    "x_transformers": ((), "tokens", 8 * 64, 0.1),
    "lightning": ((), "tokens", 35, 0.1),
    "skorch": (("train.py",), "images", 1437, 0.008),  # twelve updates an epoch
}
#: Every update of an optimizer takes longer in a training's ranks, whatever package calls it.
SLOWER = """
import os
if "DLPERF_RUN" in os.environ:
    import time
    from torch.optim.optimizer import register_optimizer_step_post_hook
    register_optimizer_step_post_hook(lambda *_: time.sleep({seconds}))
"""


def lines_of(path: Path) -> int:
    lines = [line.strip() for line in path.read_text("utf-8").splitlines()]
    return len([line for line in lines if line and not line.startswith("#")])


@pytest.mark.parametrize("name", PROJECTS)
def test_a_gate_has_ten_lines(name: str):
    theirs = PROJECTS[name][0]
    ours = [path for path in (EXAMPLES / name).glob("*.py") if path.name not in theirs]
    assert ours
    assert sum(map(lines_of, ours)) <= 10
    for path in EXAMPLES.glob(f"{name}/*.py"):
        if path.name in theirs:
            assert "dlperf" not in path.read_text("utf-8")


def test_every_example_is_run():
    assert sorted(path.name for path in EXAMPLES.iterdir()) == sorted(PROJECTS)


class Gated:
    def __init__(self, path: Path, name: str) -> None:
        self.project = PerfProject(path)
        self.project.environment = {"DLPERF_RUNTIME_DIR": str(path / "runtime")}
        (path / "runtime").mkdir()
        shutil.copytree(EXAMPLES / name, path, dirs_exist_ok=True)

    def session(self, *words: str) -> tuple[pytest.RunResult, dict[str, Any]]:
        result, [outcome] = self.project.measured("--cpus=1", "--dlperf-runs=3", *words)
        assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
        return result, outcome

    def become_slower(self, seconds: float) -> None:
        (self.project.path / "slower").mkdir()
        self.project.write_file("slower/sitecustomize.py", SLOWER.format(seconds=seconds))
        self.project.environment["PYTHONPATH"] = str(self.project.path / "slower")


@pytest.mark.nightly  # packages that no other env has; three sessions of real training
@pytest.mark.parametrize("name", PROJECTS)
def test_a_slower_package_is_found_and_the_same_one_is_not(tmp_path: Path, name: str):
    _, unit, work, slower_by_s = PROJECTS[name]
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed (tox env outside)")
    gated = Gated(tmp_path, name)
    result, first = gated.session("--update-baselines", "--dlperf-reason=tested")
    assert result.ret == 0
    assert "1 written to the baselines" in "\n".join(result.outlines)
    run = first["measurement"]["runs"][0]
    seconds = sum(run["step_seconds"][-100:])
    assert run["throughput"] == pytest.approx(100 * work / seconds, rel=0.05)
    assert f" {unit}/s" in "\n".join(result.outlines)
    # One stored session knows little of the noise, and a planted one is several times as slow
    _, again = gated.session("--dlperf-tolerance=50%")
    assert again["judgement"]["verdict"] != "regressed", again["judgement"]["reason"]
    gated.become_slower(slower_by_s)
    result, slower = gated.session("--dlperf-tolerance=50%")
    assert (slower["judgement"]["verdict"], result.ret) == ("regressed", 1), slower["judgement"]
