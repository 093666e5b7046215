"""Every shell block of README and tutorial, run in order as a new user would."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_dlperf.cli.main import _parser
from tests.helpers.documents import ROOT, Block, Ran, blocks, run_in_order

DOCUMENTS = ("README.md", "docs/tutorial.md")
#: What becomes of a slowdown where runs vary as much, as on a machine that others use.
NOT_CERTIFIED = {"incomparable", "inconclusive", "unsteady"}


def check(ran: Ran) -> str:
    """Return the verdict of the last summary that a block printed, if it did.

    The block must end with 1 where a case regressed, and else with 0. It may by speed alone, for
    a machine that is shared becomes slower by itself between two commands; nothing else changes.
    """
    where = f"{ran.block.document}:{ran.block.line}\n{ran.output}"
    rows = [line for line in ran.output.splitlines() if re.match(r"mymodel-\S+  ", line)]
    *columns, verdict = re.split(r" {2,}", rows[-1].strip()) if rows else [""]
    assert ran.exit_code == (verdict == "regressed"), where
    if verdict == "regressed":
        assert float(columns[-1].removesuffix(" %")) < -1, where
        assert "peak memory grew" not in ran.output, where
    return verdict


def test_tutorial(tutorial: list[Ran]) -> None:
    *steps, asked = tutorial
    found = [(ran.block.how, verdict) for ran in steps if (verdict := check(ran))]
    [(_, first), (_, unchanged), (how, slowed)] = found
    assert first in {f"{verdict} (created)" for verdict in ("passed", *NOT_CERTIFIED)}
    assert unchanged in {"passed", "improved", "regressed", *NOT_CERTIFIED}
    assert how == "fails"
    assert slowed in {"regressed", *NOT_CERTIFIED}
    # 0 or 1: what a self-test finds is the machine's affair
    assert asked.exit_code in {0, 1}, asked.output
    assert "does the gate see steps that take 50 % longer, in 1 case: 1 " in asked.output


def test_a_baseline_lies_where_the_tutorial_says(tutorial: list[Ran], stranger: Path) -> None:
    assert [path.name for path in stranger.glob("baselines/*/mymodel/*.json")] == [
        "mymodel-torch-fp32-bs512-1n1c.json"
    ]
    assert (stranger / "results.html").read_text("utf-8").lower().startswith("<!doctype html>")


def test_readme(
    tutorial: list[Ran], stranger: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    path = {"PATH": f"{stranger / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"}
    short = {"PYTEST_ADDOPTS": "--dlperf-runs=1 --dlperf-reason=tested -k fp32"}
    ran = list(run_in_order("README.md", tmp_path, {**environment, **path, **short}))
    assert [bool(check(one)) for one in ran] == [False, True]
    assert "1 written to the baselines" in ran[1].output


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


def unrun() -> list[Block]:
    found = [block for name in DOCUMENTS for block in blocks(name) if block.language == "bash"]
    return [block for block in found if block.how == "not run"]


def test_what_is_not_run_says_why() -> None:
    assert [block.document for block in unrun()] == ["README.md", "README.md"]
    assert all(len(block.why) > 20 for block in unrun())


def test_commands_of_a_clone_are_those_of_ci() -> None:
    _, clone = unrun()
    gate = (ROOT / ".ci/run").read_text("utf-8")
    for command in clone.commands:
        tox = command.rpartition("/tox")[2]
        assert f'"$venv/bin/tox"{tox}' in gate


def daily() -> list[str]:
    return unrun()[0].commands


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
