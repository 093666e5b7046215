from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.perf_project import PerfProject

FAKES = Path(__file__).parents[1] / "fakes"

TESTS = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout=["1n1c", "1n2c"],
                    batch_size_per_device=4)
def test_net(dlperf):
    outcome = dlperf.run()
    assert outcome.case.id.startswith("net-torch")
"""


class Suite(PerfProject):
    """A folder with a perf test whose ranks a fake torchrun stands in for."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(pytester.path)
        self.pytester = pytester
        self._monkeypatch = monkeypatch

    def env(self, **values: object) -> None:
        for name, value in values.items():
            self._monkeypatch.setenv(name, str(value))

    def write(self, text: str, name: str = "test_net") -> None:
        self.write_file(f"{name}.py", text)

    def run(self, *arguments: str) -> pytest.RunResult:
        return self.session(*arguments)

    def outcomes(self, *arguments: str) -> tuple[pytest.RunResult, dict[str, Any]]:
        """Run, and return the outcomes of the results file by case id as well."""
        result, outcomes = self.measured(*arguments)
        assert (self.path / self.results).exists(), "it wrote no results"
        return result, {outcome["case"]["id"]: outcome for outcome in outcomes}

    def verdicts(self, *arguments: str) -> dict[str, str]:
        _, outcomes = self.outcomes(*arguments)
        return {case_id: o["judgement"]["verdict"] for case_id, o in outcomes.items()}

    def baselines(self) -> dict[str, Any]:
        return {
            path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in self.path.glob("baselines/*/*/*.json")
        }
