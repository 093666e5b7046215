"""A secret of the environment, or in a prefix, stays where it was."""

from __future__ import annotations

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


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("extra", [(), ("-n2",), ("--update-baselines",)])
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


@pytest.mark.parametrize("mask", [0o022, 0o000])
def test_a_folder_that_was_there_keeps_its_mode_and_the_session_its_own(suite: Suite, mask: int):
    (suite.path / ".dlperf").mkdir(mode=0o755)
    before = os.umask(mask)
    try:
        session(suite, "--dlperf-workdir=.dlperf")
    finally:
        os.umask(before)
    assert open_to_others(suite.path / ".dlperf") == []


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
