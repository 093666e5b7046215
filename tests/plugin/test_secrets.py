"""A secret of the environment, or in a prefix, stays where it was."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.fake_suite import Suite
from tests.helpers.leaks import files_with, open_to_others, process_lists

SECRET = "hunter2-of-the-environment"
IN_PREFIX = "hunter3-in-the-prefix"


def session(suite: Suite, *arguments: str) -> str:
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dlperf-runs=1", "-v",
            "--dlperf-json=out/r.json", "--junit-xml=out/junit.xml", *arguments,
        ],
        cwd=suite.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "SECRET_TOKEN": SECRET},
    )  # fmt: skip
    assert "2 cases: " in done.stdout, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize(
    "extra", [(), pytest.param(("-n2",), marks=pytest.mark.nightly), ("--update-baselines",)]
)
def test_of_the_environment(suite: Suite, fails: bool, extra: tuple[str, ...]):
    suite.env(FAKE_FAIL="*1n2c*" if fails else "", FAKE_WALL_S=0.3)
    with process_lists(SECRET) as listed:
        printed = session(suite, *extra)
    assert SECRET not in printed
    assert listed == set()
    folders = [suite.path / name for name in (".dlperf", "out", "baselines", "runtime")]
    assert files_with(SECRET, *folders) == []
    assert open_to_others(suite.path / ".dlperf") == []
    assert open_to_others(Path(os.environ["DLPERF_RUNTIME_DIR"]) / "host.lease") == []


@pytest.mark.history
@pytest.mark.parametrize("mask", [0o022, pytest.param(0o000, marks=pytest.mark.nightly)])
def test_a_folder_that_was_there_keeps_its_mode_and_the_session_its_own(suite: Suite, mask: int):
    (suite.path / ".dlperf").mkdir(mode=0o755)
    before = os.umask(mask)
    try:
        session(suite, "--dlperf-workdir=.dlperf")
    finally:
        os.umask(before)
    assert open_to_others(suite.path / ".dlperf") == []


@pytest.mark.slow
@pytest.mark.parametrize("fails", [False, True])
def test_in_the_prefix(suite: Suite, fails: bool):
    flags = "--broken " if fails else ""
    prefix = f"--dlperf-prefix=env PREFIX_TOKEN={IN_PREFIX} box {flags}image"
    suite.env(FAKE_WALL_S=0.3)
    with process_lists(IN_PREFIX) as listed:
        printed = session(suite, prefix)
    assert IN_PREFIX not in printed
    assert files_with(IN_PREFIX, suite.path / ".dlperf", suite.path / "out") == []
    # In process lists a prefix is what the user made of it: docs/where-ranks-start.md says so.
    assert listed


#: A program whose command holds a key of the environment and a password that is in none.
PROGRAM = """
import os, sys
from pytest_dlperf.mark import step

for number in range(40):
    if number == 10 and "FAILS" in os.environ:
        key = os.environ["WANDB_API_KEY"]
        raise ValueError(f"cannot log in with {key} at https://me:{os.environ['TORCH_PASS']}@h/x")
    with step() as one:
        sum(range(20_000))
        one.loss(1 / (number + 1))
"""
COMMAND = """
import os, pytest

COMMAND = ["python", "program.py", f"--wandb-key={os.environ['WANDB_API_KEY']}",
           "--db=postgres://bob:password-of-bob@h/x", "--shared", f"{os.environ['TORCH_PASS']}"]

@pytest.mark.dlperf(command=COMMAND, framework=None, layout="1n1c", batch_size_per_device=4,
                    iterations=30, warmup=5, runs=1, max_runs=1)
def test_net(dlperf):
    dlperf.run()
"""
FILES = ["--dlperf-html=out/page.html", "--dlperf-md=out/comment.md"]
# The tox env outputs has it.
if importlib.util.find_spec("sqlalchemy") is not None:
    FILES.append("--dlperf-history=out/h.db")


def own_program(suite: Suite, *arguments: str, key: str, **variables: str) -> str:
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dlperf-json=out/r.json",
            "--junit-xml=out/junit.xml", *FILES, *arguments,
        ],
        cwd=suite.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={
            **os.environ, "WANDB_API_KEY": key, "TORCH_PASS": "pass-of-torch", **variables,
        },
    )  # fmt: skip
    assert "1 case: " in done.stdout, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.history
def test_of_a_command_is_in_no_baseline_and_another_key_is_no_other_condition(suite: Suite):
    suite.write_file("program.py", PROGRAM)
    suite.write(COMMAND)
    conditions = []
    for key, extra in (("key-of-may", "--update-baselines"), ("key-of-june", "--tb=short")):
        printed = own_program(suite, extra, "--dlperf-reason=first", key=key)
        [outcome] = json.loads((suite.path / "out/r.json").read_text("utf-8"))["outcomes"]
        conditions.append(outcome["measurement"]["conditions"])
        assert outcome["case"]["command"][2] == "--wandb-key=…"
        for secret in (key, "password-of-bob", "pass-of-torch"):
            assert secret not in printed
            assert files_with(secret, suite.path / "out", suite.path / "baselines") == []
    [stored] = suite.baselines().values()
    assert conditions[0] == conditions[1] == stored["conditions"] | {"unit": "samples"}
    assert stored["conditions"]["options"]["command"] == (
        "python program.py '--wandb-key=…' '--db=postgres://…@h/x' --shared '…'"
    )


@pytest.mark.slow
@pytest.mark.history
def test_of_a_rank_that_fails(suite: Suite):
    suite.write_file("program.py", PROGRAM)
    suite.write(COMMAND)
    printed = own_program(suite, key="key-of-may", FAILS="1")
    assert "ValueError: cannot log in with … at https://…@h/x" in printed
    for secret in ("key-of-may", "pass-of-torch", "password-of-bob"):
        assert secret not in printed
        assert files_with(secret, suite.path / "out") == []
    # Beside what it printed itself there is no file that has it.
    left = {Path(name).name for name in files_with("pass-of-torch", suite.path / ".dlperf")}
    assert left <= {"output.log"}
