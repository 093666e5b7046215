"""Packages of others, gated from outside in ten lines: a baseline, and a slower one in pairs."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.perf_project import PerfProject

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/outside"
#: By the example, which has the package's name: the files that a project had before; the unit,
#: and its work in an iteration.
PROJECTS = {
    "x_transformers": ((), "tokens", 8 * 64),
    "lightning": ((), "tokens", 35),
    "skorch": (("train.py",), "images", 1437),
}
#: Each update makes its step four times as long, whatever package calls it and however busy the
#: machine is. The limit keeps the first step short, in which packages set up.
SLOWER = """
import time
from torch.optim.optimizer import register_optimizer_step_post_hook

class Slower:
    last_s = time.perf_counter()

    def __call__(self, *_):
        time.sleep(3 * min(time.perf_counter() - self.last_s, 2.0))
        self.last_s = time.perf_counter()

register_optimizer_step_post_hook(Slower())
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
    """A repository with a package's gate."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        self.project = PerfProject(path)
        self.project.environment = {
            "DLPERF_RUNTIME_DIR": str(path / "runtime"),
            "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)]),
        }
        (path / "runtime").mkdir()
        shutil.copytree(EXAMPLES / name, path, dirs_exist_ok=True)
        (path / ".gitignore").write_text("runtime\nr.json\n__pycache__\n", encoding="utf-8")
        self.git("init", "-q", "-b", "main")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "as it was")

    def git(self, *words: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@t")
        subprocess.run(["git", *identity, *words], cwd=self.project.path, check=True)

    def session(self, *words: str) -> tuple[pytest.RunResult, dict[str, Any]]:
        result, outcomes = self.project.measured(
            "-p", "tests.helpers.no_repeats", "--cpus=1", *words
        )  # fmt: skip
        assert len(outcomes) == 1, "\n".join([self.name, *result.outlines, *result.errlines])
        [outcome] = outcomes
        assert outcome["measurement"] is not None, self.said_of(outcome)
        return result, outcome

    def said_of(self, outcome: dict[str, Any]) -> str:
        judgement = outcome["judgement"]
        return f"{self.name}: {judgement['verdict']}: {judgement['reason']}"

    def become_slower(self) -> None:
        [program] = [
            path for path in self.project.path.glob("*.py") if not path.name.startswith("test_")
        ]
        program.write_text(SLOWER + program.read_text("utf-8"), encoding="utf-8")


@pytest.mark.nightly  # packages that no other env has; two sessions of real training
@pytest.mark.parametrize("name", PROJECTS)
def test_a_package_is_measured_and_a_slower_one_is_found(tmp_path: Path, name: str):
    _, unit, work = PROJECTS[name]
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed (tox env outside)")
    gated = Gated(tmp_path, name)
    result, first = gated.session(
        "--dlperf-runs=1", "--dlperf-max-runs=1", "--update-baselines", "--dlperf-reason=tested"
    )
    assert "1 written to the baselines" in "\n".join(result.outlines)
    run = first["measurement"]["runs"][0]
    seconds = sum(run["step_seconds"][-100:])
    assert run["throughput"] == pytest.approx(100 * work / seconds, rel=0.05)
    assert f" {unit}/s" in "\n".join(result.outlines)
    gated.become_slower()
    # Both arms meet the same machine, and four times as long is beyond what its noise could do;
    # the tolerance is small, so that noisy pairs need not show more than that it is slower
    result, slower = gated.session(
        "-p", "tests.helpers.others_ignored", "--dlperf-against=HEAD",
        "--dlperf-pairs=alternating", "--dlperf-runs=3", "--dlperf-max-runs=10",
        "--dlperf-iterations=20", "--dlperf-warmup=5", "--dlperf-tolerance=5%",
    )  # fmt: skip
    judgement = slower["judgement"]
    assert (judgement["verdict"], result.ret) == ("regressed", 1), gated.said_of(slower)
    assert judgement["change"] < -0.5
