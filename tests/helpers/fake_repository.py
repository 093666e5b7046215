"""A repository whose commits are workloads of the fake launcher."""

from __future__ import annotations

import subprocess

from tests.helpers.fake_suite import Suite
from tests.helpers.perf_project import PerfProject

#: A tolerance that three pairs certify.
WIDE = "--dlperf-tolerance=15%"
ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


def git(suite: PerfProject, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=suite.path, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(suite: Suite, step_s: float, *, memory_bytes: int = 0) -> str:
    """Commit a workload whose steps take so long and need so much, and return the commit."""
    text = f"memory_bytes = {memory_bytes}\n" if memory_bytes else ""
    text += f"step_s = {step_s}\n"
    (suite.path / "w.py").write_text(text, encoding="utf-8")
    git(suite, "add", "w.py", "test_net.py")
    git(suite, "commit", "-q", "-m", f"{step_s} s")
    return git(suite, "rev-parse", "HEAD")
