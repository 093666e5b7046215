from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.perf_project import PerfProject, perf_test

#: The trainings that tests name by module and function.
HERE = Path(__file__).parents[1] / "torch"


class Folder(PerfProject):
    """A user's folder with one perf test on the small trainings of ``workloads.py``."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        super().__init__(pytester.path)
        self.pytester = pytester

    def write(self, workload: str = "workloads:build", **marker: Any) -> None:
        keys = {
            "precision": "fp32", "layout": "1n2c", "batch_size_per_device": 8, "iterations": 30,
            "warmup": 10, "runs": 1, "timeout_s": 120.0, **marker,
        }  # fmt: skip
        self.write_tests(perf_test(workload, **keys))

    def run(self, *arguments: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
        return self.measured(*arguments)
