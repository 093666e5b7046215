"""A session that SIGTERM or Ctrl-C ends: its reports, its exit code, and what it leaves."""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
import sys
import termios

import pytest

from pytest_dlperf.cli.main import main
from pytest_dlperf.launch.process.lease import lease_holder
from tests.helpers.ended_session import (
    CANCEL_S,
    CASES,
    REPORTS,
    TESTS,
    end,
    hangs,
    in_junit,
    start,
    until,
)
from tests.helpers.fake_suite import Suite
from tests.helpers.own_time import OwnTime
from tests.helpers.processes import heed_interrupts
from tests.helpers.written import written

# Many sessions; .ci/run has them
pytestmark = pytest.mark.slow

WHY = "it was not measured: SIGTERM ended the session before its end"
INTERRUPTED = "it was not measured: the session was interrupted before its end"


@pytest.fixture
def hanging(suite: Suite) -> Suite:
    """Return a suite whose second case never ends."""
    suite.write(TESTS)
    suite.env(FAKE_HANG="*bs2*")
    return suite


def verdicts(suite: Suite) -> dict[str, tuple[str, str]]:
    return {
        o["case"]["id"]: (o["judgement"]["verdict"], o["judgement"]["reason"])
        for o in suite.read_outcomes()
    }


def check_reports(suite: Suite, why: str) -> None:
    first, second, third = CASES
    found = verdicts(suite)
    assert list(found) == CASES
    assert found[first][0] == "no-baseline"
    assert found[second] == found[third] == ("not-run", why)
    assert {o["case"]["id"]: o["interrupted"] for o in suite.read_outcomes()} == {
        first: False, second: True, third: True,
    }  # fmt: skip
    junit = in_junit(suite)
    for case_id in (second, third):
        assert junit[f"test_net[{case_id}]"] == f"not-run: {why}"
    for name in ("p.html", "c.md"):
        text = (suite.path / name).read_text(encoding="utf-8")
        assert all(case_id in text for case_id in CASES), name
    # The page can be made of the results file at any time, the session's folder being there or not
    shutil.rmtree(suite.path / ".dlperf")
    page = suite.path / "q.html"
    assert main(["report", str(suite.path / "r.json"), f"--html={page}"]) == 0
    assert page.read_bytes() == (suite.path / "p.html").read_bytes()
    assert "2 not-run" in (suite.path / "out.txt").read_text(encoding="utf-8")


@pytest.mark.history
@pytest.mark.parametrize(
    ("number", "code", "why"),
    [
        (signal.SIGTERM, 143, WHY),
        pytest.param(
            signal.SIGHUP, 129, WHY.replace("SIGTERM", "SIGHUP"), marks=pytest.mark.nightly
        ),
        (signal.SIGINT, 2, INTERRUPTED),
    ],
)
def test_all_reports_of_what_was_measured_are_written(
    hanging: Suite, number: int, code: int, why: str
):
    session = start(hanging)
    until(lambda: hangs(hanging), session)
    assert end(hanging, session, number) == code
    check_reports(hanging, why)


def test_a_terminal_that_is_closed_leaves_all_reports(hanging: Suite):
    """Nothing can be printed any more, and the kernel sends SIGHUP."""
    master, terminal = os.openpty()
    session = hanging.start(
        *(f"{option}={name}" for option, name in REPORTS.items()),
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        preexec_fn=take_terminal,
    )  # fmt: skip
    os.close(terminal)
    # A terminal that nobody reads fills up
    until(lambda: read_what_is_there(master) or hangs(hanging), session)
    os.close(master)
    assert session.wait(timeout=60) == 129
    assert hanging.ours() == []
    (hanging.path / "out.txt").write_text("2 not-run", encoding="utf-8")
    check_reports(hanging, WHY.replace("SIGTERM", "SIGHUP"))


def take_terminal() -> None:
    heed_interrupts()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_what_is_there(descriptor: int) -> None:
    while select.select([descriptor], [], [], 0)[0]:
        os.read(descriptor, 4096)


def test_nohup_stays(hanging: Suite):
    """A signal that was ignored when the session began stays ignored."""

    def ignore() -> None:
        heed_interrupts()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    session = start(hanging, preexec_fn=ignore)
    until(lambda: hangs(hanging), session)
    assert end(hanging, session, signal.SIGHUP, signal.SIGTERM) == 143


def test_a_second_sigterm_changes_nothing(hanging: Suite):
    session = start(hanging)
    until(lambda: hangs(hanging), session)
    assert end(hanging, session, signal.SIGTERM, signal.SIGTERM, signal.SIGTERM) == 143
    check_reports(hanging, WHY)


@pytest.mark.parametrize("group", [True, False], ids=["the group", "the controller"])
def test_under_xdist(hanging: Suite, group: bool):
    session = start(hanging, "-n2", "--dist=loadfile")
    until(lambda: hangs(hanging), session)
    assert end(hanging, session, signal.SIGTERM, group=group) == 143
    check_reports(hanging, WHY)


HOLDER = """
from pytest_dlperf.launch.process.lease import host_lease
with host_lease("other-case"):
    print("held", flush=True)
    input()
"""


def test_while_another_session_has_the_host(suite: Suite):
    suite.write(TESTS)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        session = start(suite)
        out = suite.path / "out.txt"
        until(lambda: "waiting for this host" in out.read_text(encoding="utf-8"), session)
        time_taken = OwnTime(session)
        session.send_signal(signal.SIGTERM)
        assert time_taken.wait() == 143
        assert time_taken.own_s < CANCEL_S
    finally:
        holder.kill()
        holder.communicate()
    assert verdicts(suite) == dict.fromkeys(CASES, ("not-run", WHY))
    assert lease_holder() is None


@pytest.mark.nightly  # the gate has its main way
def test_while_the_tree_of_the_other_arm_is_prepared(suite: Suite):
    suite.write(TESTS)
    suite.write_file("pytest.ini", "[pytest]\ndlperf_arm_setup = sh -c 'touch begun; sleep 60'\n")
    for words in (["init", "-q"], ["add", "test_net.py"], ["commit", "-q", "-m", "one"]):
        identity = ["-c", "user.name=t", "-c", "user.email=t@t"]
        subprocess.run(["git", *identity, *words], cwd=suite.path, check=True)
    session = start(suite, "--dlperf-against=HEAD")
    until(lambda: written(suite.path, ".dlperf/arms/**/begun"), session)
    assert end(suite, session, signal.SIGTERM) == 143
    assert verdicts(suite) == dict.fromkeys(CASES, ("not-run", WHY))
    # The tree that was not finished is no arm of the next session
    suite.write_file("pytest.ini", "[pytest]\n")
    assert suite.run("--dlperf-against=HEAD", "-k", "bs1").ret == 0


#: Sends SIGTERM from within: at the end of a session, when a baseline was written.
AT_THE_END = """
import os, signal, pytest

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish():
    os.kill(os.getpid(), signal.SIGTERM)
"""
WHEN_STORED = """
import os, signal
from pytest_dlperf.store.baseline.store import BaselineStore

update = BaselineStore.update

def and_then(*arguments):
    done = update(*arguments)
    os.kill(os.getpid(), signal.SIGTERM)
    return done

BaselineStore.update = and_then
"""


def test_while_reports_are_written_all_of_them_are_finished(suite: Suite):
    suite.write(TESTS)
    suite.write_file("conftest.py", AT_THE_END)
    session = start(suite)
    assert end(suite, session) == 0
    assert list(verdicts(suite)) == CASES
    assert set(in_junit(suite)) == {f"test_net[{case_id}]" for case_id in CASES} | {"test_other"}
    assert all((suite.path / name).stat().st_size for name in REPORTS.values())


def test_what_was_being_stored_is_reported_and_nothing_is_stored_after_it(suite: Suite):
    suite.write(TESTS)
    suite.write_file("conftest.py", WHEN_STORED)
    assert end(suite, start(suite, "--update-baselines")) == 143
    first, second, third = CASES
    assert list(suite.baselines()) == [first]
    found = {o["case"]["id"]: o for o in suite.read_outcomes()}
    assert (found[first]["update"], found[first]["judgement"]["verdict"]) == ("created", "passed")
    assert {found[one]["judgement"]["reason"] for one in (second, third)} == {WHY}


#: Sends SIGTERM while the reports of a finished case are taken, before and after ours.
WHEN_REPORTED = """
import os, signal, pytest

@pytest.hookimpl({order}=True)
def pytest_runtest_logreport(report):
    if report.when == "call" and "bs1" in report.nodeid:
        os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("order", ["tryfirst", "trylast"])
def test_what_one_report_has_all_have(suite: Suite, order: str):
    suite.write(TESTS)
    suite.write_file("conftest.py", WHEN_REPORTED.format(order=order))
    assert end(suite, start(suite)) == 143
    check_reports(suite, WHY)


def test_an_interrupted_case_is_not_stored(hanging: Suite):
    session = start(hanging, "--update-baselines")
    until(lambda: hangs(hanging), session)
    assert end(hanging, session, signal.SIGTERM) == 143
    # As after Ctrl-C: what had its verdict before is stored
    assert list(hanging.baselines()) == [CASES[0]]
    assert not list(hanging.path.glob("baselines/**/*.tmp"))


HANDLERS = """
import signal

def test_handler():
    assert signal.getsignal(signal.SIGTERM) == {expected}
"""


def test_without_perf_cases_the_signal_is_left_alone(suite: Suite):
    suite.write(HANDLERS.format(expected="signal.SIG_DFL"))
    assert suite.run("--dlperf-json=r.json").ret == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--collect-only"],
        *(
            pytest.param(words, marks=pytest.mark.nightly)
            for words in [["--dlperf-list"], ["-k", "handler"]]
        ),
    ],
)
def test_where_no_case_runs_the_signal_is_left_alone(suite: Suite, arguments: list[str]):
    suite.write(TESTS + HANDLERS.format(expected="signal.SIG_DFL"))
    suite.write_file(
        "conftest.py",
        "import signal\ndef pytest_sessionfinish():\n"
        "    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL\n",
    )
    assert suite.run(*arguments).ret == 0


def test_a_handler_of_others_stays(suite: Suite):
    suite.write(TESTS + HANDLERS.format(expected="signal.SIG_IGN"))
    suite.write_file(
        "conftest.py", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    )
    assert suite.run("-k", "bs1 or handler").ret == 0


def test_the_handler_is_gone_after_the_session(suite: Suite):
    suite.write(TESTS)
    program = (
        "import pytest, signal; code = pytest.main(['-p', 'no:cacheprovider', '-k', 'bs1']);"
        "assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL; raise SystemExit(code)"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], cwd=suite.path, check=False).returncode
        == 0
    )


def test_a_fork_of_the_session_dies_of_the_signal(suite: Suite):
    suite.write(
        TESTS
        + """
def test_fork():
    import os, signal, time
    lives, begins = os.pipe()
    child = os.fork()
    if child == 0:
        # Python drops signals that come while a fork begins
        os.write(begins, b"1")
        time.sleep(30)
        os._exit(0)
    os.read(lives, 1)
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
"""
    )
    assert suite.run("-k", "bs1 or fork").ret == 0


def test_who_swallows_the_interrupt_is_interrupted_again_by_the_next(suite: Suite):
    """Only after a while: some send the signal to the process and to its group at once."""
    suite.write(
        TESTS
        + """
def test_swallows(monkeypatch):
    import os, signal, time
    from pytest_dlperf.session import ending
    def send():
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        send()
    send()
    monkeypatch.setattr(ending, "_SAME_S", 0.0)
    send()
"""
    )
    result = suite.run("-k", "bs1 or swallows", "--dlperf-json=r.json")
    assert result.ret == 143
    assert [verdict for verdict, _ in verdicts(suite).values()] == ["no-baseline"]
