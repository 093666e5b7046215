"""The script that acts on codes, and the loop around it, as the page prints them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.finding_codes import CODES
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.judge.verdict import judgement_by, plain_judgement
from pytest_dlperf.report import json_
from tests.helpers.documents import Block, blocks
from tests.helpers.report_builders import case, measured

BLOCKS = blocks("docs/howto/act-on-codes.md")


def block(language: str) -> Block:
    [found] = [block for block in BLOCKS if block.language == language]
    return found


def outcome(code: str, suite: str = "tsm", *, failed: bool = False) -> Outcome:
    """Return an outcome that a finding of this code decided."""
    finding = Finding(code=code, weight=CODES[code].weights[0], metric="", figures={"says": "so"})
    return measured(case(suite=suite), 100.0, judgement=judgement_by((finding,)), failed=failed)


MOVED, DIFFER = outcome("machine-moved"), outcome("conditions-differ", "other", failed=True)
STRICT = outcome("disturbed", failed=True)
PASSED = outcome("within-tolerance", "fine")
ERROR = measured(
    case(suite="bad"), 1.0, judgement=plain_judgement(Verdict.ERROR, "boom"), failed=True
)


def test_it_is_ten_lines_and_names_codes_that_there_are() -> None:
    text = block("python").text
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 10
    namespace: dict[str, list[str]] = {}
    exec(next(line for line in lines if line.startswith("AGAIN")), namespace)
    assert set(namespace["AGAIN"]) <= CODES.keys()
    weights = {weight for code in namespace["AGAIN"] for weight in CODES[code].weights}
    assert weights == {Weight.MACHINE, Weight.DOUBT, Weight.OPEN, Weight.NOTE}


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([PASSED], 0),
        ([PASSED, MOVED], 75),
        ([PASSED, STRICT], 75),
        ([MOVED, DIFFER, PASSED], 1),
        ([ERROR], 1),
    ],
)
def test_its_exit_code_says_what_to_do(tmp_path: Path, outcomes: list[Outcome], code: int) -> None:
    json_.write(tmp_path / "results.json", outcomes)
    (tmp_path / "act.py").write_text(block("python").text, "utf-8")
    command = [sys.executable, "-W", "ignore", "act.py", "results.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")
    named = {line.split()[0] for line in done.stdout.splitlines()}
    assert named == {o.case.id for o in outcomes if o is not PASSED}


@pytest.mark.parametrize(
    ("attempts", "code"),
    [
        ([[MOVED], [PASSED]], 0),
        ([[MOVED], [DIFFER]], 1),
        ([[MOVED], [MOVED], [STRICT]], 75),
        ([[MOVED], []], 4),  # pytest's own: wrong usage
    ],
)
def test_the_loop_repeats_what_another_try_may_decide(
    tmp_path: Path, attempts: list[list[Outcome]], code: int
) -> None:
    """pytest is a stand-in that copies what each attempt would have measured."""
    for number, outcomes in enumerate(attempts):
        if outcomes:
            json_.write(tmp_path / f"{number}.json", outcomes)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python").symlink_to(sys.executable)
    stand_in = programs / "pytest"
    stand_in.write_text(
        "#!/bin/sh\nn=$(cat count 2>/dev/null || echo 0)\necho $((n + 1)) > count\n"
        "cp $n.json results.json 2>/dev/null || exit 4\n"
        "! grep -q '\"failed\": true' results.json\n"
    )
    stand_in.chmod(0o755)
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/act_on_codes.py").write_text(block("python").text, "utf-8")
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-e", "-c", block("bash").text], cwd=tmp_path, env=environment, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert int((tmp_path / "count").read_text()) == len(attempts)
