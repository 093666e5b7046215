"""What a session finds on its host and in its folders, and what it leaves there."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from itertools import pairwise

import pytest

from tests.helpers.fake_suite import Suite

ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"


@pytest.mark.slow
def test_a_framework_that_is_not_installed(suite: Suite):
    suite.write(
        """
        import pytest
        @pytest.mark.dlperf("w:build", framework=["torch", "paddle"], launcher="torchrun",
                            layout="1n1c", batch_size_per_device=4)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    result, outcomes = suite.outcomes("--dlperf-runs=1", "--update-baselines")
    assert result.ret == 0
    paddle = outcomes["net-paddle-fp32-bs4-1n1c"]["judgement"]
    assert paddle["verdict"] == "not-run"
    assert "pip install 'pytest-dlperf[paddle]'" in paddle["reason"]
    result.stdout.fnmatch_lines(["*1 not-run, 1 written to the baselines; 1 NOT JUDGED*"])

    result, outcomes = suite.outcomes("--dlperf-framework=paddle")
    assert result.ret == 1
    assert outcomes["net-paddle-fp32-bs4-1n1c"]["judgement"]["verdict"] == "error"


@pytest.mark.nightly  # the gate has its main way
def test_a_gpu_that_vanished_is_an_error_also_beside_cpu_layouts(suite: Suite):
    suite.write(
        """
        import pytest
        @pytest.mark.dlperf("w:build", launcher="torchrun", layout=["1n1c", "1n1g"],
                            batch_size_per_device=4)
        def test_net(dlperf):
            dlperf.run()
        """
    )
    suite.env(DLPERF_MACHINE_CLASS="1x-test")
    assert suite.run("--update-baselines").ret == 0
    folder = suite.path / "baselines" / "1x-test" / "net"
    text = (folder / f"{ONE}.json").read_text(encoding="utf-8")
    gpu = ONE.replace("1n1c", "1n1g")
    (folder / f"{gpu}.json").write_text(text.replace(ONE, gpu), encoding="utf-8")
    result = suite.run()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*1n1g needs 1 GPUs*a device vanished; see dlperf doctor*"])


@pytest.mark.slow
def test_more_than_there_is_is_an_error_that_starts_nothing(suite: Suite):
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log)
    result, outcomes = suite.outcomes("--gpus=8", "--cpus=1", "--dlperf-against=PYTHONHASHSEED=1")
    result.assert_outcomes(passed=1, failed=1)
    asked = outcomes[ONE.replace("1n1c", "1n8g")]
    assert asked["judgement"]["verdict"] == "error"
    assert asked["judgement"]["reason"].endswith("or leave --gpus and --cpus out")
    # What says where it was asked
    assert asked["environment"]["machine_class"]
    assert asked["against"]["name"] == "PYTHONHASHSEED=1"
    assert "1n8g" not in log.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_broken_baseline_of_another_case_is_reported_and_stops_nothing(suite: Suite):
    broken = suite.path / "baselines" / "8x-other" / "foo" / "foo-torch-fp32-bs1-1n1g.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{", encoding="utf-8")
    result, outcomes = suite.outcomes("--dlperf-runs=1")
    assert result.ret == 0
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"no-baseline"}
    result.stdout.fnmatch_lines([f"*{broken.name}: line 1*"])
    listed = suite.run("--dlperf-list")
    listed.stdout.fnmatch_lines(["foo-torch-fp32-bs1-1n1g.json*broken: *"])


@pytest.mark.slow
def test_the_users_own_folders_are_left_alone(suite: Suite):
    (suite.path / ".gitignore").write_text("mine\n", encoding="utf-8")
    folders = [suite.path / f"old{i}" for i in range(15)]
    for folder in folders:
        folder.mkdir()
        os.utime(folder, (0, 0))
    assert suite.run("--dlperf-runs=1", "--dlperf-workdir=.").ret == 0
    assert (suite.path / ".gitignore").read_text(encoding="utf-8") == "mine\n"
    assert all(folder.exists() for folder in folders)


@pytest.mark.slow
def test_only_the_last_ten_sessions_are_kept(suite: Suite):
    work = suite.path / ".dlperf"
    suite.run("--dlperf-runs=1", "-k", ONE)
    [first] = [mark.parent for mark in work.glob("*/.dlperf-session")]
    for age in range(1, 11):
        mark = shutil.copytree(first, work / f"older{age}") / ".dlperf-session"
        os.utime(mark, (mark.stat().st_atime, mark.stat().st_mtime - age))
    (work / "mine").mkdir()
    suite.run("--dlperf-runs=1", "-k", ONE)
    kept = {mark.parent.name for mark in work.glob("*/.dlperf-session")}
    assert len(kept) == 10
    assert kept > {first.name, *(f"older{age}" for age in range(1, 9))}
    assert not any((work / f"older{age}").exists() for age in (9, 10))
    assert (work / "mine").is_dir()


@pytest.mark.nightly
def test_a_shared_host_measures_a_parent_once(suite: Suite):
    suite.env(FAKE_WALL_S=0.3)
    result, outcomes = suite.outcomes("--dlperf-share-host", "-n2", "--dlperf-runs=2")
    assert result.ret == 0
    assert {o["judgement"]["verdict"] for o in outcomes.values()} == {"no-baseline"}


@pytest.mark.nightly  # the gate has its main way
def test_the_line_that_reproduces_does(suite: Suite):
    folder = suite.path / "sub"
    folder.mkdir()
    (suite.path / "test_net.py").rename(folder / "test_net.py")
    (suite.path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    assert suite.run("--update-baselines", "--dlperf-runs=3").ret == 0
    os.chdir(folder)
    few = ("--cpus=1,2", "--dlperf-runs=3")
    result = suite.run(*few, "--dlperf-inject=*-1n2c:80%", "--dlperf-json", "r.json")
    [line] = [line for line in result.outlines if "reproduce: pytest" in line]
    command = shlex.split(line.partition("pytest ")[2])
    assert "r.json" not in command
    again = suite.run(*command)
    again.assert_outcomes(failed=1)
    again.stdout.fnmatch_lines([f"*{TWO}*regressed*"])


@pytest.mark.slow
def test_the_waiting_of_one_pytest_for_another(suite: Suite):
    """Two sessions at once: cases never overlap, and both store what they measured."""
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log, FAKE_WALL_S=0.1)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--update-baselines"]
    # Not the same rates: two outcomes of one second with one rate are one, stored once.
    sessions = [
        subprocess.Popen(
            [*command, "--dlperf-runs=2"],
            cwd=suite.path,
            env={**os.environ, "FAKE_STEP_S": step_s},
            stdout=subprocess.PIPE,
        )
        for step_s in ("0.01", "0.010001")
    ]
    outputs = [session.communicate(timeout=120)[0].decode() for session in sessions]
    assert [session.returncode for session in sessions] == [0, 0], outputs
    assert [len(b["sessions"]) for b in suite.baselines().values()] == [2, 2]
    starts = sorted(float(line.split()[1]) for line in log.read_text().splitlines())
    assert len(starts) == 8
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(starts))
