"""Trains the suites of this repository in one short session, for the tests of every framework."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def train_suites(
    tmp_path: Path, which: str, *arguments: str
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run the cases that match ``which``, words of ``-k``, once each.

    Returns the session that has ended, and its outcomes. What it writes, and its lease, are below
    ``tmp_path``: another test's session trains at the same time.
    """
    results = tmp_path / "r.json"
    command = [
        sys.executable, "-m", "pytest", "perf_tests", "-p", "no:cacheprovider", "-k", which,
        "-p", "tests.helpers.no_repeats", "--dlperf-runs=1", "--dlperf-max-runs=1",
        f"--dlperf-json={results}", f"--dlperf-workdir={tmp_path / 'work'}",
        f"--dlperf-baselines={tmp_path / 'baselines'}", *arguments,
    ]  # fmt: skip
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_XDIST_")}
    environment["DLPERF_RUNTIME_DIR"] = str(tmp_path / "runtime")
    done = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert results.exists(), done.stdout + done.stderr
    outcomes: list[dict[str, Any]] = json.loads(results.read_text(encoding="utf-8"))["outcomes"]
    return done, outcomes
