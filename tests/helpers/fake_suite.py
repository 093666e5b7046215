from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

FAKES = Path(__file__).parents[1] / "fakes"

TESTS = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout=["1n1c", "1n2c"],
                    batch_size_per_device=4)
def test_net(dlperf):
    outcome = dlperf.run()
    assert outcome.case.id.startswith("net-torch")
"""


class Suite:
    """A folder with a perf test whose ranks a fake torchrun stands in for."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self._monkeypatch = monkeypatch

    def env(self, **values: object) -> None:
        for name, value in values.items():
            self._monkeypatch.setenv(name, str(value))

    def write(self, text: str, name: str = "test_net") -> None:
        self.pytester.makepyfile(**{name: text})

    def run(self, *arguments: str) -> pytest.RunResult:
        return self.pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    def outcomes(self, *arguments: str) -> tuple[pytest.RunResult, dict[str, Any]]:
        """Run, and return the outcomes of the results file by case id as well."""
        result = self.run("--dlperf-json=r.json", *arguments)
        values = json.loads((self.path / "r.json").read_text(encoding="utf-8"))
        assert values["format"] == 1
        return result, {o["case"]["id"]: o for o in values["outcomes"]}

    def verdicts(self, *arguments: str) -> dict[str, str]:
        _, outcomes = self.outcomes(*arguments)
        return {case_id: o["judgement"]["verdict"] for case_id, o in outcomes.items()}

    def baselines(self) -> dict[str, Any]:
        return {
            path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in self.path.glob("baselines/*/*/*.json")
        }
