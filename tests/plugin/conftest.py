from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

FAKES = Path(__file__).parents[1] / "fakes"

TESTS = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout=["1n1c", "1n2c"],
                    batch_size_per_device=4, cases_placeholder=None)
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


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    if Path(sys.executable).with_name("torchrun").exists():
        pytest.skip("this environment has a real torchrun; the fake is for those without")
    site = pytester.mkdir("site")
    info = site / "torch-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PATH", f"{FAKES}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(pytester.mkdir("runtime")))
    made = Suite(pytester, monkeypatch)
    made.write(TESTS.replace(", cases_placeholder=None", ""))
    return made
