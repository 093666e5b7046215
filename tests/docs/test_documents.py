"""Every shell block of README and tutorial, run in order as a new user would.

Verdicts are those of trainings whose time is simulated; of real ones the facts are looked at.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_dlperf.cli.main import _parser
from tests.helpers.documents import (
    AUTHOR,
    CASE,
    ROOT,
    Block,
    Ran,
    blocks,
    check_tutorial,
    run_in_order,
)
from tests.helpers.fake_suite import FAKES

DOCUMENTS = ("README.md", "docs/tutorial.md")


ASKED = "does the gate see steps that take 50 % longer, in 1 case: 1 "


@pytest.mark.nightly  # it installs PyTorch once more; tests/torch runs the same commands in CI
def test_tutorial(tutorial: list[Ran], stranger: Path) -> None:
    *steps, selftest = tutorial
    check_tutorial(steps, stranger)
    assert ASKED in selftest.output


@pytest.mark.nightly  # in the environment of the tutorial
def test_readme(
    tutorial: list[Ran], stranger: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    path = {"PATH": f"{stranger / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"}
    short = {"PYTEST_ADDOPTS": "--dlperf-runs=1 --dlperf-reason=tested -k fp32"}
    install, *_ = unrun()
    in_clone, from_index = install.commands
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", in_clone],
        cwd=ROOT, env={**environment, **path}, check=True,
    )  # fmt: skip
    assert from_index == "pip install 'pytest-dlperf[torch]'"
    ran = list(run_in_order("README.md", tmp_path, {**environment, **path, **short}))
    for one in ran:
        one.check()
    assert [bool(one.verdict) for one in ran] == [True]
    assert "1 written to the baselines" in ran[0].output


@pytest.mark.nightly  # in the environment of the tutorial
def test_a_suite_trains_from_the_wheel(
    tutorial: list[Ran], stranger: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    # A user's own folder of the suites' name in a clone is not what is found.
    (tmp_path / "perf_tests").mkdir()
    (tmp_path / "perf_tests/__init__.py").write_text("raise AssertionError('not this one')\n")
    done = subprocess.run(
        [
            stranger / ".venv/bin/pytest", "--pyargs", "pytest_dlperf.suites",
            "-k", "tsm and torch and fp32", "--cpus=1", "--dlperf-json=results.json",
            "--dlperf-runs=1", "--dlperf-iterations=12", "--dlperf-warmup=4",
        ],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (outcome,) = json.loads((tmp_path / "results.json").read_text("utf-8"))["outcomes"]
    assert outcome["case"]["id"] == "tsm.tiny-torch-fp32-bs2-1n1c"
    assert outcome["case"]["workload"] == "pytest_dlperf.suites.tsm.torch_train:build"
    assert outcome["measurement"]["throughput"] > 0


@pytest.mark.slow
def test_verdicts_of_the_tutorial(tmp_path: Path) -> None:
    """Its commands, where a step takes a hundredth of a second, and then half as long again."""
    folder = tmp_path / "stranger"
    programs, site = folder / ".venv/bin", tmp_path / "site/torch-9.9.dist-info"
    programs.mkdir(parents=True)
    for name in ("pytest", "dlperf"):
        (programs / name).symlink_to(Path(sys.executable).with_name(name))
    site.mkdir(parents=True)
    (site / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 9.9\n")
    environment = {
        **os.environ,
        **AUTHOR,
        "PATH": os.pathsep.join([str(FAKES), os.environ["PATH"]]),
        "PYTHONPATH": str(site.parent),
        "PYTEST_ADDOPTS": "-p no:cacheprovider --dlperf-launcher=torchrun --dlperf-runs=3",
        "DLPERF_RUNTIME_DIR": str(tmp_path / "runtime"),
        "FAKE_IMPORTS": "mymodel.py",
        "FAKE_STEP_FILE": "mymodel.py",
        "FAKE_SETTINGS": "1",
    }
    seconds = iter(["0.01", "0.015"])

    def append_step_seconds(path: Path) -> None:
        """Make it end with how long a step takes, for the fake."""
        if path.name == "mymodel.py":
            with path.open("a", encoding="utf-8") as file:
                file.write(f"# {next(seconds)}\n")

    *ran, selftest = run_in_order(
        "docs/tutorial.md",
        folder,
        environment,
        leave_out="-m venv|pip install",
        after_writing=append_step_seconds,
    )
    check_tutorial(ran, folder)
    assert f"{ASKED}yes" in selftest.output
    assert selftest.exit_code == 0
    sessions = [one for one in ran if one.verdict]
    assert [one.verdict for one in sessions] == ["regressed", "passed (created)", "passed"]
    assert f"{CASE}: regressed" in sessions[0].output
    assert "33.3 % slower than HEAD (commit " in sessions[0].output


def unrun() -> list[Block]:
    found = [block for name in DOCUMENTS for block in blocks(name) if block.language == "bash"]
    return [block for block in found if block.how == "not run"]


def test_what_is_not_run_says_why() -> None:
    assert [block.document for block in unrun()] == ["README.md"] * 3
    assert all(len(block.why) > 20 for block in unrun())


def test_commands_of_a_clone_are_those_of_ci() -> None:
    *_, clone = unrun()
    gate = (ROOT / ".ci/run").read_text("utf-8")
    for command in clone.commands:
        tox = command.rpartition("/tox")[2]
        assert f'"$venv/bin/tox"{tox}' in gate


def daily() -> list[str]:
    return unrun()[1].commands


@pytest.mark.parametrize("command", [c for c in daily() if c.startswith("dlperf")])
def test_daily_command(command: str) -> None:
    assert callable(_parser().parse_args(shlex.split(command)[1:]).run)


@pytest.mark.parametrize("command", [c for c in daily() if c.startswith("pytest")])
def test_daily_session(command: str, tmp_path: Path) -> None:
    words = shlex.split(command.replace("=DIR", f"={tmp_path}").replace("=main", "=HEAD"))
    shows = "--collect-only" if "--dlperf-selftest" in command else "--dlperf-dry-run"
    done = subprocess.run(
        [
            sys.executable, "-m", *words, shows, "-k", "tsm and torch",
            "-p", "no:cacheprovider",
        ],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tsm" in done.stdout
