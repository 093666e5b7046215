"""The commands that ``dlperf history bisect`` prints, typed in a toy repository."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fake_suite import Suite

pytest.importorskip("sqlalchemy", reason="the extra history is not installed (tox env outputs)")
pytest.importorskip("otava.analysis", reason="Apache Otava is not installed (tox env outputs)")

from pytest_dlperf import cli
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.store.history.address import parse_address
from pytest_dlperf.store.history.append import append
from tests.helpers.history_builders import case, days

pytestmark = [pytest.mark.slow, pytest.mark.history]  # many sessions; .ci/run has them


#: As the fake suite declares it.
CASE = case(
    layout="1n1c", suite="net", precision="fp32", batch_size=4,
    protocol=Protocol(iterations=150, warmup=50),
)  # fmt: skip


def typed(suite: Suite, command: str) -> str:
    done = subprocess.run(
        shlex.split(command), cwd=suite.path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def repository(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.chdir(suite.path)
    monkeypatch.delenv("DLPERF_HISTORY", raising=False)
    typed(suite, "git init -q -b main")
    typed(suite, "git config user.name t")
    typed(suite, "git config user.email t@t")
    (suite.path / ".git/info/exclude").write_text("site\nruntime\n.dlperf\n")
    suite.env(FAKE_IMPORTS="w.py", FAKE_STEP_FILE="w.py")
    return suite


def made(suite: Suite, *steps: str, folder: str = ".") -> list[str]:
    """Make a commit of each number of seconds that a step takes, and return the commits."""
    commits = []
    for number, step_s in enumerate(steps):
        text = f"# {number}\nstep_s = {step_s}\n"
        (suite.path / folder / "w.py").write_text(text, encoding="utf-8")
        typed(suite, "git add .")
        typed(suite, f"git commit -qm 'number {number}'")
        commits.append(typed(suite, "git rev-parse HEAD").strip())
    return commits


def bisected(suite: Suite, capsys: Any, first: str, last: str, change: float) -> str:
    """Measure the first and the last commit, type what is printed, and return what git says."""
    commands = printed(capsys, first, last, change)
    return [typed(suite, command) for command in commands][1]


def printed(capsys: Any, first: str, last: str, change: float) -> list[str]:
    """Return the commands, of sessions that ran here."""
    address = parse_address(".dlperf/history.sqlite", folder=Path.cwd(), what="test")
    node_id = f"test_net.py::test_net[{CASE.id}]"
    sessions = list(days(20, changed_on=10, change=change, of=CASE, node_id=node_id, commit=first))
    later = days(20, changed_on=10, change=change, of=CASE, node_id=node_id, commit=last)
    append(address, "s", [*sessions[:10], *list(later)[10:]])
    capsys.readouterr()
    assert cli.main(["history", "bisect", CASE.id, "--json"]) == 0
    commands: list[str] = json.loads(capsys.readouterr().out)["bisection"]["commands"]
    return commands


def test_the_slow_commit_is_found_past_one_that_cannot_run(repository: Suite, capsys: Any):
    # The middle, which git tries first, is broken
    commits = made(repository, "0.01", "0.01", "0.01", "none", "0.01", "0.0104", "0.0104")
    told = bisected(repository, capsys, commits[0], commits[-1], change=-0.04)
    assert f"{commits[5]} is the first bad commit" in told
    assert "error: undecided at this commit" in told
    assert typed(repository, "git rev-parse HEAD").strip() == commits[6]


@pytest.mark.nightly  # the gate finds a slow commit, and a speed-up past twice the rate
def test_the_commit_of_a_speed_up_is_found(repository: Suite, capsys: Any):
    commits = made(repository, "0.01", "0.01", "0.0094", "0.0094", "0.0094")
    told = bisected(repository, capsys, commits[0], commits[-1], change=0.06)
    assert f"{commits[2]} is the first fast commit" in told


def test_the_commit_of_a_speed_up_past_twice_the_rate_is_found(repository: Suite, capsys: Any):
    """The slow level is 60 % below the fast one: half of +149 % would call nothing slow."""
    commits = made(repository, "0.0249", "0.0249", "0.0249", "0.01", "0.01")
    told = bisected(repository, capsys, commits[0], commits[-1], change=1.49)
    assert f"{commits[3]} is the first fast commit" in told


@pytest.fixture
def below(repository: Suite) -> Suite:
    """A repository whose tests, with pytest's root folder, are in ``ml``."""
    ml = repository.path / "ml"
    ml.mkdir()
    (ml / "pytest.ini").write_text("[pytest]\n")
    (repository.path / "test_net.py").rename(ml / "test_net.py")
    # From where the sessions run: the one, or the other
    repository.env(FAKE_IMPORTS="w.py?,ml/w.py?", FAKE_STEP_FILE="w.py,ml/w.py")
    # Not the test of the case: pytest calls it other/test_net.py
    (repository.path / "other").mkdir()
    (repository.path / "other/test_net.py").write_text("")
    return repository


# The gate types the lines where they need a folder.
@pytest.mark.parametrize("here", ["ml", pytest.param(".", marks=pytest.mark.nightly)])
def test_the_lines_work_where_pytests_root_is_not_gits(
    below: Suite, here: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
):
    commits = made(below, "0.01", "0.01", "0.0104", folder="ml")
    monkeypatch.chdir(below.path / here)
    commands = printed(capsys, commits[0], commits[-1], -0.04)
    test = f"'{'' if here == 'ml' else 'ml/'}test_net.py::test_net[{CASE.id}]'"
    assert f" -- {test} " in commands[1]
    assert ("--folder=ml" in commands[1]) == (here == "ml")
    told = [typed(below, command) for command in commands][1]
    assert f"{commits[2]} is the first bad commit" in told


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--against=nowhere", "--", "test_net.py"), 129, "has no commit 'nowhere'"),
        (("--against=HEAD", "--", "test_net.py", "--no-such"), 129, "pytest did not begin"),
        (("--against=HEAD", "--", "test_net.py", "--dlperf-runs=x"), 129, "pytest did not begin"),
        (("--against=HEAD", "--", "test_gone.py::test_x"), 125, "0 cases were measured"),
        (("--against=HEAD", "--", "test_broken.py::test_x"), 125, "0 cases were measured"),
        (("--against=HEAD", "--folder=gone", "--", "test_net.py"), 125, "has no folder gone"),
    ],
)
def test_what_is_wrong_at_every_commit_stops_and_what_is_wrong_at_one_is_passed_over(
    repository: Suite, words: tuple[str, ...], code: int, told: str
):
    made(repository, "0.01")
    (repository.path / "test_broken.py").write_text("import no_such_module\n")
    step = ["dlperf", "history", "bisect-step", "--limit=2%"]
    done = subprocess.run(
        [*step, *words], cwd=repository.path, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert told in done.stderr
