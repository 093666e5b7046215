from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.processes import of_runs_in

#: The trainings that tests name by module and function.
HERE = Path(__file__).parents[1] / "torch"


class Folder:
    """A user's folder with one perf test on the small trainings of ``workloads.py``."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path

    def write(self, workload: str = "workloads:build", **marker: Any) -> None:
        keys = {
            "precision": "fp32", "layout": "1n2c", "batch_size_per_device": 8, "iterations": 30,
            "warmup": 10, "runs": 1, "timeout_s": 120.0, **marker,
        }  # fmt: skip
        arguments = ", ".join(f"{key}={value!r}" for key, value in keys.items())
        (self.path / "test_net.py").write_text(
            textwrap.dedent(f"""
                import pytest
                @pytest.mark.dlperf({workload!r}, {arguments})
                def test_net(dlperf):
                    dlperf.run()
            """),
            encoding="utf-8",
        )

    def run(self, *arguments: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
        results = self.path / "r.json"
        results.unlink(missing_ok=True)
        result = self.pytester.runpytest_subprocess(
            "-p", "no:cacheprovider", "--dlperf-json=r.json", *arguments
        )
        outcomes: list[dict[str, Any]] = []
        if results.exists():
            outcomes = json.loads(results.read_text(encoding="utf-8"))["outcomes"]
        return result, outcomes

    def ours(self) -> list[str]:
        """Return the command lines of living processes that belong to runs of this folder."""
        return of_runs_in(self.path)
