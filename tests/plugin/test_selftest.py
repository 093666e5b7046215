"""``--dlperf-selftest``: does the gate see a slowdown here? Whole sessions, on simulated time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.fake_suite import Suite
from tests.helpers.processes import heed_interrupts
from tests.helpers.written import written

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


ONE, TWO = "net-torch-fp32-bs4-1n1c", "net-torch-fp32-bs4-1n2c"
#: One run a session, which is enough where time is simulated.
SHORT = ("--dlperf-selftest=100%", "--dlperf-tolerance=30%", "--dlperf-runs=1")
#: As many pairs as decide, which take no turns: the fake would have to wait for them.
PAIRS = ("--dlperf-runs=3", "--dlperf-pairs=alternating")
#: Gives each session of the self-test the environment that the test wrote for it.
CONFTEST = """
import json, os, pathlib

def pytest_configure(config):
    if config.option.dlperf_selftest == "off" and not hasattr(config, "workerinput"):
        sessions = json.loads(pathlib.Path("sessions.json").read_text())
        os.environ.update(sessions.pop(0) if sessions else {})
        pathlib.Path("sessions.json").write_text(json.dumps(sessions))
"""


def plan(suite: Suite, *sessions: dict[str, str]) -> None:
    (suite.path / "conftest.py").write_text(CONFTEST)
    (suite.path / "sessions.json").write_text(json.dumps(sessions))


def unlike(**values: object) -> dict[str, str]:
    """Return an environment of a session, of which nothing is left in the next."""
    usual = {"FAKE_STEP_S": 0.01, "FAKE_CANARY": 1, "FAKE_OTHERS": 0, "FAKE_FAIL": ""}
    return {name: str(value) for name, value in {**usual, **values}.items()}


def folder(suite: Suite) -> Path:
    (found,) = suite.path.glob(".dlperf/selftest/*/")
    return found


def results(suite: Suite, step: str) -> dict[str, Any]:
    values = json.loads((folder(suite) / f"{step}.json").read_text(encoding="utf-8"))
    return {o["case"]["id"]: o for o in values["outcomes"]}


def steps(suite: Suite) -> set[str]:
    return {path.stem for path in folder(suite).glob("*.html")}


def snapshot(path: Path) -> dict[str, tuple[bytes, int]]:
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in path.rglob("*") if p.is_file()}


def test_it_stores_passes_and_finds_the_slowdown(suite: Suite):
    # A baseline that nobody could read, and a test that is none of ours
    machine = suite.path / "baselines" / "box"
    (machine / "net").mkdir(parents=True)
    (machine / "noise.json").write_text("broken")
    (machine / "net" / f"{ONE}.json").write_text("broken")
    suite.env(DLPERF_MACHINE_CLASS="box")
    suite.write("def test_x():\n    raise AssertionError\n", "test_other")
    before = snapshot(suite.path / "baselines")
    result = suite.run(*SHORT, "--cpus=1", "-x", "--junitxml=j.xml")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "dlperf self-test 1/3: measures, and stores a temporary baseline in .dlperf/*",
            "*1 case: 1 written to the baselines",
            "dlperf self-test 2/3: measures the same again, *; this and the next take * s, and *",
            "*1 case: 1 passed",
            "dlperf self-test 3/3: makes each step 100 % longer for real, which must be found",
            f"{ONE}: regressed",
            "*1 case: 1 regressed",
            "*= dlperf self-test =*",
            f"{ONE}: yes",
            "  stored: * samples/s, 1 run",
            "  unchanged: passed: *",
            "  slower: regressed: 50.0 % slower than stored",
            "  the gate sees steps that take 100 % longer here",
            "does the gate see steps that take 100 % longer, in 1 case: 1 yes",
            "page: .dlperf/selftest/*/slower.html",
        ]
    )
    result.stdout.no_fnmatch_line("*FAILURES*")
    result.stdout.no_fnmatch_line("*reproduce:*")
    assert snapshot(suite.path / "baselines") == before
    assert results(suite, "slower")[ONE]["measurement"]["inject"] == 1
    assert results(suite, "unchanged")[ONE]["measurement"]["inject"] == 0
    assert steps(suite) == {"store", "unchanged", "slower"}
    assert not (folder(suite) / "baselines").exists()
    assert (suite.path / ".dlperf" / ".gitignore").read_text() == "*\n"
    assert not (suite.path / "j.xml").exists()
    assert not (suite.path / ".dlperf" / "run_times.json").exists()


def test_a_gate_that_sees_nothing(suite: Suite):
    result = suite.run(*SHORT, "--cpus=1", "--dlperf-tolerance=60%")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            f"{ONE}: NO",
            "  slower: passed: certainly 50.0 % slower than stored, within the tolerance of*",
            "  the gate does NOT see steps that take 100 % longer here: they were certified "
            "within the tolerance of 60 %*",
        ]
    )
    assert steps(suite) == {"store", "unchanged", "slower"}


@pytest.mark.nightly  # the gate has its main way
def test_what_stored_sessions_leave_open_is_asked_by_pairs_and_nothing_else(suite: Suite):
    """One case is disturbed while it is stored; then both look slower, which nobody made them."""
    disturbed, slow = unlike(FAKE_OTHERS=1), unlike(FAKE_STEP_S=0.03)
    plan(suite, disturbed, slow, *[disturbed | {"FAKE_STEP_S": "0.02"}] * 2)
    suite.write(
        "import pytest\n"
        "@pytest.mark.dlperf('w:build', framework=['torch', 'paddle'], launcher='torchrun',\n"
        "                    layout=['1n1c', '1n2c'], batch_size_per_device=4)\n"
        "def test_net(dlperf):\n    dlperf.run()\n"
    )
    suite.env(FAKE_OTHERS_IN="*-1n2c/*")
    result = suite.run(*SHORT, *PAIRS)
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            "dlperf self-test 2/3: measures the same again, which must pass; *",
            "dlperf self-test 2/3, by pairs: 2 cases are open; measures the same beside itself, *",
            "dlperf self-test 3/3, by pairs: 2 cases are open; makes each step of one side 100 %*",
            f"{ONE}: yes",
            "  stored: * samples/s, 3 runs",
            "  unchanged: regressed (a FALSE ALARM): *",
            "  unchanged, by pairs: passed: * DLPERF_ARM=unchanged*",
            "  slower, by pairs: regressed: * DLPERF_ARM=unchanged*",
            "  the gate sees steps that take 100 % longer here, by pairs; pairs did not confirm *",
            f"{TWO}: yes",
            "  stored: incomparable: *",
            "  unchanged, by pairs: passed: *",
            "  slower, by pairs: regressed: *",
            "  the gate sees steps that take 100 % longer here, by pairs",
            "net-paddle-fp32-bs4-1n1c: not asked",
            "  paddle is not installed*",
            "does the gate see * in 4 cases: 2 yes, 2 not asked",
            "page: .dlperf/selftest/*/slower-pairs.html",
        ]
    )
    # What was disturbed is not compared with, and what has its answer is not run again
    ran = {name: list(results(suite, name)) for name in steps(suite)}
    assert len(ran.pop("store")) == 4
    assert ran == {"unchanged": [ONE], "unchanged-pairs": [ONE, TWO], "slower-pairs": [ONE, TWO]}
    [outcome, _] = results(suite, "slower-pairs").values()
    sides = [outcome["measurement"], outcome["against"]["measurement"]]
    assert [side["inject"] for side in sides] == [1, 0]


CHANGED = {"FAKE_CANARY": "0.3", "FAKE_STEP_S": "0.05"}


@pytest.mark.nightly  # the gate has its main way
def test_the_slower_question_alone_is_asked_by_pairs(suite: Suite):
    """The machine changes after the unchanged case passed; both sides of a pair are on it."""
    plan(suite, unlike(), unlike(), *[unlike(**CHANGED)] * 2)
    result = suite.run(*SHORT, "--cpus=1")
    assert result.ret == 0, result.stdout.str()
    result.stdout.fnmatch_lines(
        [
            f"{ONE}: yes",
            "  unchanged: passed: *",
            "  slower: incomparable: *",
            "  slower, by pairs: regressed: *",
            "  the gate sees steps that take 100 % longer here, by pairs",
        ]
    )
    assert steps(suite) == {"store", "unchanged", "slower", "slower-pairs"}
    [outcome] = results(suite, "slower-pairs").values()
    assert outcome["against"]["order"] == ["both"]


def test_a_gate_without_pairs_gives_no_answer_and_says_so(suite: Suite):
    plan(suite, unlike(), unlike(), unlike(**CHANGED))
    result = suite.run(*SHORT, "--cpus=1", "--dlperf-confirm=never")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            f"{ONE}: no answer",
            "  slower: incomparable: *",
            "  no answer: its runs could not be compared, *; --dlperf-confirm=never excludes pai*",
            "does the gate see * in 1 case: 1 no answer",
        ]
    )
    assert steps(suite) == {"store", "unchanged", "slower"}


def test_an_error_ends_it(suite: Suite):
    plan(suite, unlike(), unlike(FAKE_FAIL="*"))
    result = suite.run(*SHORT, "--cpus=1")
    assert result.ret == 1
    result.stdout.fnmatch_lines([f"{ONE}: error", "  unchanged: error: *boom*"])
    result.stdout.no_fnmatch_line("*self-test 3/3*")


#: Makes one arm of a pair of equal ones three times as fast.
ONE_ARM_IS_FASTER = """
import os

if os.environ.get("DLPERF_ARM"):
    os.environ["FAKE_STEP_S"] = "0.003"
"""


def test_pairs_that_call_the_unchanged_case_slower_are_a_false_alarm(suite: Suite):
    (suite.path / "site" / "sitecustomize.py").write_text(ONE_ARM_IS_FASTER)
    plan(suite, unlike(FAKE_OTHERS=1))
    result = suite.run(*SHORT, "--cpus=1", *PAIRS)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            f"{ONE}: NO, it cries wolf",
            "  unchanged, by pairs: regressed (a FALSE ALARM): *",
            "  what nobody changed was regressed, by pairs: *",
        ]
    )
    assert steps(suite) == {"store", "unchanged-pairs"}


@pytest.mark.nightly  # the gate has its main way
def test_without_pairs_a_false_alarm_of_the_stored_session_counts(suite: Suite):
    plan(suite, unlike(), unlike(FAKE_STEP_S=0.03))
    result = suite.run(*SHORT, "--cpus=1", "--dlperf-confirm=never")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [f"{ONE}: NO, it cries wolf", "  unchanged: regressed (a FALSE ALARM): *"]
    )
    assert steps(suite) == {"store", "unchanged"}


def test_a_machine_with_one_core(suite: Suite):
    words = ["taskset", "-c", str(min(os.sched_getaffinity(0))), sys.executable, "-m", "pytest"]
    result = suite.pytester.run(*words, "-p", "no:cacheprovider", *SHORT, "--cpus=2")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            f"{TWO}: error",
            "  *1n2c needs 2 cores, this machine lets us use 1*",
            "*in 1 case: 1 error",
        ]
    )
    result.stdout.no_fnmatch_line("*self-test 2/3*")


@pytest.mark.nightly  # the gate has other options of ini files and variables
def test_ini_and_environment_may_ask_for_it(suite: Suite):
    ini = (
        "--dlperf-selftest=100% --dlperf-json=mine.json --dlperf-md=mine.md --dlperf-mode=observe"
    )
    suite.pytester.makeini(f"[pytest]\naddopts = {ini} --dlperf-baselines=elsewhere")
    result = suite.run("--dlperf-tolerance=30%", "--dlperf-runs=1", "--cpus=1")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["does the gate see *: 1 yes"])
    assert not {path.name for path in suite.path.iterdir()} & {"mine.json", "mine.md", "elsewhere"}
    # It is switched off, and nothing is left of it
    result = suite.run("--dlperf-selftest=off", "--dlperf-runs=1", "--cpus=1")
    result.stdout.fnmatch_lines(["*1 case: 1 no-baseline; 1 NOT JUDGED"])
    assert (suite.path / "mine.json").exists()


@pytest.mark.nightly  # the gate has the self-test alone
def test_in_processes_of_xdist_and_with_lists_of_pytest(suite: Suite):
    result = suite.pytester.runpytest_subprocess(*SHORT, "-n1", "--cpus=1", "--lf", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["does the gate see *: 1 yes"])
    assert not (suite.path / ".pytest_cache").exists(), "what fails on purpose is not --lf's"


def test_what_only_shows_something_stays_that(suite: Suite):
    result = suite.run(*SHORT, "--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"*test_net?{ONE}?"])
    assert not (suite.path / ".dlperf").exists()
    assert suite.run("--dlperf-selftest=5%", "--help").ret == 0


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--dlperf-selftest=5"], 4, "*--dlperf-selftest: a bare 5 would mean 500%*"),
        ([*SHORT, "--update-baselines"], 4, "*--dlperf-selftest and --update-baselines: *"),
        ([*SHORT, "--dlperf-workdir=test_net.py/x"], 4, "*cannot write to *test_net.py/x: Not a*"),
        ([*SHORT, "-k", "nothing"], 5, "dlperf self-test: no test with the marker dlperf was*"),
    ],
)
def test_bad_input(suite: Suite, options: list[str], code: int, words: str):
    result = suite.run(*options)
    assert result.ret == code
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    (result.stderr if code == 4 else result.stdout).fnmatch_lines([words])


def started(suite: Suite) -> subprocess.Popen[bytes]:
    """Return a self-test whose first run is in the midst of its window."""
    suite.env(FAKE_WALL_S=60, SELFTEST_MARK=suite.path)
    with (suite.path / "log").open("wb") as log:
        session = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *SHORT, "--cpus=1"],
            cwd=suite.path,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=heed_interrupts,  # noqa: PLW1509
        )
    end_s = time.monotonic() + 60
    while not written(suite.path, ".dlperf/selftest/*/*/*/run1/**/*.progress"):
        assert session.poll() is None, (suite.path / "log").read_text()
        assert time.monotonic() < end_s
        time.sleep(0.02)
    return session


def living(suite: Suite) -> list[str]:
    """Return the processes that the self-test has started, itself among them."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if f"SELFTEST_MARK={suite.path}".encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended while we looked, or is somebody else's
    return found


def wait_until_gone(suite: Suite) -> None:
    end_s = time.monotonic() + 30
    while left := living(suite):
        assert time.monotonic() < end_s, left
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("number", "send"),
    [
        (signal.SIGINT, os.killpg),
        pytest.param(signal.SIGINT, os.kill, marks=pytest.mark.nightly),
        (signal.SIGTERM, os.kill),
    ],
)
def test_it_is_interrupted(suite: Suite, number: signal.Signals, send: Callable[[int, int], None]):
    session = started(suite)
    assert len(living(suite)) > 3, "itself, a session, a supervisor, a launcher"
    send(session.pid, number)
    assert session.wait(timeout=60) == 2, (suite.path / "log").read_text()
    assert living(suite) == []
    assert not (folder(suite) / "baselines").exists()
    assert not (suite.path / "baselines").exists()
    said = (suite.path / "log").read_text()
    assert "dlperf self-test: interrupted; nothing is stored" in said
    assert "Traceback" not in said


def test_it_is_killed(suite: Suite):
    session = started(suite)
    session.kill()
    assert session.wait(timeout=60) == -signal.SIGKILL
    wait_until_gone(suite)
    assert not (suite.path / "baselines").exists()


TWO_TESTS = (
    "import os, pytest\n"
    "keys = {'layout': '1n1c', 'batch_size_per_device': 4, 'launcher': 'torchrun'}\n"
    "@pytest.mark.dlperf('w:build', **keys)\n"
    "def test_a(dlperf):\n"
    "    dlperf.run()\n"
    "@pytest.mark.dlperf('w:build', **keys)\n"
    "def test_b(dlperf):\n"
    "    if os.environ.get('SKIPPED'):\n"
    "        pytest.skip('not now')\n"
    "    dlperf.run()\n"
)


@pytest.mark.nightly  # the gate has a case with an error
def test_a_case_that_was_not_measured_again_does_not_end_the_others(suite: Suite):
    skipped, usual = {"SKIPPED": "1"}, {"SKIPPED": ""}
    plan(suite, unlike() | usual, *[unlike() | skipped] * 2, unlike() | usual)
    suite.write(TWO_TESTS)
    result = suite.run(*SHORT)
    assert result.ret == 0, result.stderr.str()
    result.stdout.fnmatch_lines(
        [
            "a-torch-fp32-bs4-1n1c: yes",
            "b-torch-fp32-bs4-1n1c: no answer",
            "  no answer: it did not start; see the output above",
        ]
    )


@pytest.mark.nightly  # the gate has an error that ends it
def test_after_an_error_no_pairs_are_run(suite: Suite):
    plan(suite, unlike(), unlike(FAKE_CANARY=2, FAKE_FAIL="*b-torch*"))
    suite.write(TWO_TESTS)
    result = suite.run(*SHORT)
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "a-torch-fp32-bs4-1n1c: no answer",
            "  stored: * samples/s, 1 run",
            "  unchanged: incomp*",
            "b-torch-fp32-bs4-1n1c: error",
        ]
    )
    assert steps(suite) == {"store", "unchanged"}
