from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.helpers.fake_repository import commit, git
from tests.helpers.fake_suite import FAKES, TESTS, Suite


@pytest.fixture(autouse=True)
def without_hypothesis(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave hypothesis out of the sessions that tests start: it takes half of their time."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    if Path(sys.executable).with_name("torchrun").exists():
        pytest.skip("this environment has a real torchrun; the fake is for those without")
    site = pytester.mkdir("site")
    info = site / "torch-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n")
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setenv("PATH", f"{FAKES}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    made = Suite(pytester, monkeypatch)
    made.write(TESTS)
    return made


@pytest.fixture
def repository(suite: Suite) -> Suite:
    git(suite, "init", "-q", "-b", "main")
    (suite.path / ".git/info/exclude").write_text("site\nruntime\nr.json\n")
    (suite.path / "other.py").write_text("x = 1\n", encoding="utf-8")
    git(suite, "add", "other.py")
    commit(suite, 0.01)
    suite.env(FAKE_IMPORTS="w.py", FAKE_STEP_FILE="w.py", FAKE_SETTINGS=1)
    return suite
