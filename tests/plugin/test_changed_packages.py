"""Packages that changed since the stored session: real pip and wheels, a fake launcher.

The seconds of a step are the last word of a module of ``pk_b``, so that its version decides.
"""

from __future__ import annotations

import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.outcome import outcome_from_json
from tests.helpers.fake_repository import ONE, commit
from tests.helpers.fake_suite import Suite
from tests.helpers.repository import wheel

pytestmark = pytest.mark.slow

ONLY = ("-k", "1n1c", "--dlperf-runs=3", "--dlperf-pairs=alternating")
CONFIRM = "--dlperf-confirm=packages"


class Packages:
    """Packages of a folder on the ranks' path, and wheels of them for pip."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.suite = suite
        self.index, self.site = folder / "index", folder / "site"
        self.index.mkdir(parents=True)
        self.site.mkdir()
        path = os.pathsep.join([str(self.site), os.environ["PYTHONPATH"]])
        suite.env(PIP_NO_INDEX=1, PIP_FIND_LINKS=self.index, PYTHONPATH=path)

    def install(self, name: str, version: str, text: str = "") -> Path:
        """Install a package in place of its other version, and return its wheel."""
        for info in self.site.glob(f"{name}-*.dist-info"):
            shutil.rmtree(info)
        made = wheel(self.index, version, name=name, text=text)
        with zipfile.ZipFile(made) as file:
            file.extractall(self.site)
        return made

    def outcome(self, *words: str) -> dict[str, Any]:
        _, outcomes = self.suite.outcomes(*ONLY, *words)
        found: dict[str, Any] = outcomes[ONE]
        return found

    def launches(self) -> int:
        """The launches since this was asked before."""
        log = self.suite.path / "launches"
        self.suite.env(FAKE_LOG=log)
        count = len(log.read_text().splitlines()) if log.exists() else 0
        log.unlink(missing_ok=True)
        return count


@pytest.fixture
def packages(repository: Suite, tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """One session is stored, of three packages and the commit that is checked out."""
    repository.env(FAKE_SETTINGS=1, FAKE_STEP_FILE="pk_b.py")
    made = Packages(repository, tmp_path_factory.mktemp("packages"))
    for name in ("pk_a", "pk_c"):
        made.install(name, "1.0")
    made.install("pk_b", "1.0", "0.01")
    result = repository.run(*ONLY, "--update-baselines")
    assert result.ret == 0, result.stdout.str()
    made.launches()
    return made


def first_line(outcome: dict[str, Any]) -> str:
    line: str = outcome["judgement"]["reason"].partition("\n")[0]
    return line


def test_the_package_that_is_slower_is_found_by_pairs(packages: Packages):
    packages.install("pk_a", "2.0")
    packages.install("pk_b", "2.0", "0.02")
    packages.install("pk_c", "2.0")
    outcome = packages.outcome(CONFIRM)
    assert outcome["judgement"]["verdict"] == "regressed"
    assert outcome["judgement"]["change"] == pytest.approx(-0.5, abs=0.01)
    assert re.match(
        r"(49|50)\.\d % slower than stored; the code is the same; "
        r"pk-b 1\.0 became 2\.0: (49|50)\.\d % slower: regressed\n"
        r"pip install pk-b==1\.0, or accept it: --update-baselines",
        outcome["judgement"]["reason"],
    )
    confirmation = outcome["confirmation"]
    assert confirmation["same_code"] is True
    assert confirmation["pairs"] is None, "the code needs none"
    found = confirmation["packages"]
    assert found["pairs"]["verdict"] == "regressed"
    assert found["slower"] == [{"name": "pk-b", "before": "1.0", "now": "2.0"}]
    assert found["against"]["name"] == "pk-a==1.0 and 2 more"
    assert found["search_pairs"] == 3 * 3, "three questions among three packages"
    assert confirmation["stored"]["verdict"] == "regressed"
    assert outcome_from_json(outcome).judged_throughput == pytest.approx(200, rel=0.01)
    assert confirmation["environment"] == ["pk-a 1.0 became 2.0 (and 2 more)"]


@pytest.mark.nightly
def test_packages_that_are_not_slower_are_not_the_cause(packages: Packages):
    """The machine is slower: every launch is, whatever its packages."""
    packages.install("pk_a", "2.0")
    (packages.site / "pk_b.py").write_text("0.016")
    wheel(packages.index, "1.0", name="pk_b", text="0.016")
    outcome = packages.outcome(CONFIRM)
    assert outcome["judgement"]["verdict"] == "passed", outcome["judgement"]["reason"]
    assert outcome["confirmation"]["packages"]["pairs"]["verdict"] == "passed"


@pytest.mark.nightly
def test_without_the_option_the_sentence_says_what_measures_it(packages: Packages):
    packages.install("pk_b", "2.0", "0.02")
    outcome = packages.outcome()
    assert outcome["judgement"]["verdict"] == "regressed"
    assert re.match(
        r"(49|50)\.\d % slower than stored; the code is the same; pk-b 1\.0 became 2\.0; "
        r"--dlperf-confirm=packages measures that$",
        first_line(outcome),
    )
    assert outcome["confirmation"]["packages"] is None


@pytest.mark.nightly  # the gate has its main way
def test_the_code_is_asked_before_the_packages(packages: Packages):
    commit(packages.suite, 0.02)
    packages.install("pk_b", "2.0", "0.02")
    outcome = packages.outcome(CONFIRM)
    assert outcome["judgement"]["verdict"] == "regressed"
    assert outcome["confirmation"]["pairs"]["verdict"] == "passed"
    assert outcome["confirmation"]["packages"]["pairs"]["verdict"] == "regressed"
    assert "; the code is not the cause (side by side " in first_line(outcome)


@pytest.mark.nightly  # the gate has its main way
def test_code_that_is_slower_leaves_packages_out(packages: Packages):
    packages.suite.env(FAKE_STEP_FILE="w.py")
    commit(packages.suite, 0.02)
    packages.install("pk_b", "2.0", "0.02")
    outcome = packages.outcome(CONFIRM)
    assert outcome["judgement"]["verdict"] == "regressed"
    assert outcome["confirmation"]["pairs"]["verdict"] == "regressed"
    assert outcome["confirmation"]["packages"] is None


@pytest.mark.nightly  # the gate has its main way
def test_what_cannot_be_installed_is_said_and_the_stored_judgement_stays(packages: Packages):
    packages.install("pk_b", "2.0", "0.02")
    (packages.index / "pk_b-1.0-py3-none-any.whl").unlink()
    outcome = packages.outcome(CONFIRM)
    assert outcome["judgement"]["verdict"] == "regressed"
    words = "'pk-b==1.0' cannot be installed for"
    reason = outcome["judgement"]["reason"]
    assert f"no pairs with the packages of the stored session: {words}" in reason
    assert words in outcome["confirmation"]["packages"]["impossible"]
    assert outcome["confirmation"]["packages"]["pairs"] is None


#: A clock by which the time is up once the first stage has its three runs.
CLOCK = """
from pathlib import Path
from pytest_dlperf.flow.budget import Budget

Budget.allows = lambda self, run_s: not any(Path().glob(".dlperf/*/net*/run3"))
"""


@pytest.mark.nightly
def test_a_budget_that_is_spent_leaves_the_stored_judgement(packages: Packages):
    packages.install("pk_b", "2.0", "0.02")
    shutil.rmtree(packages.suite.path / ".dlperf")
    packages.suite.pytester.makeconftest(CLOCK)
    outcome = packages.outcome(CONFIRM, "--dlperf-budget=1h")
    assert outcome["judgement"]["verdict"] == "regressed"
    assert "the budget of 60 min was spent" in outcome["judgement"]["reason"]
    assert outcome["confirmation"]["packages"]["pairs"] is None


@pytest.mark.nightly  # the gate has its main way
def test_a_changed_setting_with_equal_code_is_named(packages: Packages):
    packages.suite.env(NCCL_ALGO="Ring", TORCH_HOME="/elsewhere")
    (packages.site / "pk_b.py").write_text("0.02")
    outcome = packages.outcome(CONFIRM)
    assert outcome["judgement"]["verdict"] == "regressed"
    assert "; the code is the same; NCCL_ALGO (not set) became Ring; accept it" in (
        first_line(outcome)
    )
    assert outcome["confirmation"]["environment"] == ["NCCL_ALGO (not set) became Ring"]
    assert packages.launches() > 0
