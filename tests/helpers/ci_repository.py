"""A repository as a job of a CI service finds it, and the examples to run there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "ci"
FAKES = ROOT / "tests" / "fakes"
CASE = "net-torch-fp32-bs4-1n1c"

TEST = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout=["1n1c"], batch_size_per_device=4)
def test_net(dlperf):
    dlperf.run()
"""


def document(path: str) -> Any:
    return yaml.safe_load((EXAMPLES / path).read_text(encoding="utf-8"))


class Repository:
    """A repository with a fake suite, a clone of ``origin``, as a CI job finds it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "work"
        self.temp = folder / "temp"
        self.origin = folder / "origin.git"
        self.stand_ins = folder / "bin"
        (self.path / "perf_tests").mkdir(parents=True)
        (self.path / "perf_tests" / "test_net.py").write_text(TEST)
        (self.path / "pytest.ini").write_text("[pytest]\n")
        (self.path / ".gitignore").write_text("perf-results/\n__pycache__/\n.pytest_cache/\n")
        site = folder / "site" / "torch-9.9.dist-info"
        site.mkdir(parents=True)
        (site / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n")
        for programs in (self.stand_ins, self.temp / "perf" / "bin"):
            programs.mkdir(parents=True)
        # What the step before installs.
        for name in ("pytest", "dlperf"):
            (self.temp / "perf" / "bin" / name).symlink_to(Path(sys.executable).with_name(name))
        self.env = {
            # pytest-benchmark measures nothing in a process of pytest-xdist
            **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST")},
            "PATH": os.pathsep.join([str(self.stand_ins), str(FAKES), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(site.parent), os.environ.get("PYTHONPATH", "")]),
            "PYTEST_ADDOPTS": "-p no:cacheprovider",
            "DLPERF_RUNTIME_DIR": str(folder),
            "HOME": str(folder),
            "RUNNER_TEMP": str(self.temp),
            "PERF_VENV": str(self.temp / "perf"),
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "STAND_IN": str(folder / "stand-in"),
        }
        (folder / "stand-in").mkdir()
        self.git("init", "-q", "-b", "main")
        self.commit("begin")
        subprocess.run(["git", "init", "-q", "--bare", self.origin], check=True)
        self.git("remote", "add", "origin", str(self.origin))
        self.git("push", "-q", "origin", "main")

    def git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        return subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.path, env=self.env, check=True, text=True, capture_output=True,
        ).stdout  # fmt: skip

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)

    def stand_in(self, name: str, text: str) -> None:
        """Put a program first on PATH, for one that only the CI service has."""
        program = self.stand_ins / name
        program.write_text(f"#!{sys.executable}\n{text}")
        program.chmod(0o755)

    def calls(self) -> list[list[str]]:
        """Return the arguments of the calls of stand-ins, which note them."""
        log = Path(self.env["STAND_IN"]) / "calls"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return [line.split("\x1f") for line in lines]

    def bash(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a step as GitHub's runner does."""
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script],
            cwd=self.path, env={**self.env, **env}, text=True, capture_output=True, check=False,
        )  # fmt: skip

    def step(self, path: str, name: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run the step of that name; ``env`` gives what its expressions would."""
        [job] = document(path)["jobs"].values()
        [step] = [step for step in job["steps"] if step.get("name") == name]
        declared: Mapping[str, str] = step.get("env", {})
        assert set(declared) <= set(env), "an expression without a value here"
        return self.bash(step["run"], **env)
