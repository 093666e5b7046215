"""A session that SIGTERM or Ctrl-C ends: its reports, its exit code, and what it leaves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from pytest_dlperf.cli.main import main
from pytest_dlperf.launch.process.lease import lease_holder
from tests.helpers.fake_suite import Suite
from tests.helpers.processes import heed_interrupts
from tests.helpers.written import written

# Many sessions; .ci/run has them
pytestmark = pytest.mark.slow

#: From SIGTERM to SIGKILL, as schedulers have it.
CANCEL_S = 10.0
REPORTS = {
    "--dlperf-json": "r.json", "--dlperf-html": "p.html", "--dlperf-md": "c.md",
    "--dlperf-metrics": "m.txt", "--junitxml": "j.xml",
}  # fmt: skip
if find_spec("sqlalchemy") is not None:
    REPORTS["--dlperf-history"] = "h.sqlite"
TESTS = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c", batch_size_per_device=[1, 2, 4],
                    runs=1, max_runs=1)
def test_net(dlperf):
    dlperf.run()

def test_other():
    pass
"""
#: Ids of the three cases: the first is measured, the second hangs, the third is not reached.
CASES = [f"net-torch-fp32-bs{size}-1n1c" for size in (1, 2, 4)]
WHY = "it was not measured: SIGTERM ended the session before its end"
INTERRUPTED = "it was not measured: the session was interrupted before its end"


@pytest.fixture
def hanging(suite: Suite) -> Suite:
    """Return a suite whose second case never ends."""
    suite.write(TESTS)
    suite.env(FAKE_HANG="*bs2*")
    return suite


def until(is_so: Callable[[], Any], session: subprocess.Popen[Any], seconds: float = 60) -> None:
    end_s = time.monotonic() + seconds
    while not is_so():
        assert session.poll() is None, "the session ended by itself"
        assert time.monotonic() < end_s
        time.sleep(0.05)


def start(suite: Suite, *arguments: str, **process: Any) -> subprocess.Popen[Any]:
    reports = [f"{option}={name}" for option, name in REPORTS.items()]
    with (suite.path / "out.txt").open("wb") as out:
        return suite.start(
            *reports, *arguments, stdout=out, stderr=subprocess.STDOUT,
            preexec_fn=heed_interrupts, start_new_session=True, **process,
        )  # fmt: skip


def hangs(suite: Suite) -> bool:
    return any("torchrun" in line and "bs2" in line for line in suite.ours())


def end(suite: Suite, session: subprocess.Popen[Any], *signals: int, group: bool = False) -> int:
    """Send signals, and return the exit code; nothing of the session may be left."""
    began_s = time.monotonic()
    for number in signals:
        (os.killpg if group else os.kill)(session.pid, number)
        time.sleep(0.2)
    code = session.wait(timeout=60)
    took_s = time.monotonic() - began_s
    print((suite.path / "out.txt").read_text(encoding="utf-8"))  # noqa: T201
    assert took_s < CANCEL_S
    assert suite.ours() == []
    assert lease_holder() is None
    return code


def verdicts(suite: Suite) -> dict[str, tuple[str, str]]:
    return {
        o["case"]["id"]: (o["judgement"]["verdict"], o["judgement"]["reason"])
        for o in suite.read_outcomes()
    }


def in_junit(suite: Suite) -> dict[str, str]:
    """Return what JUnit says of each test: ``passed``, or the message of the skip."""
    found = {}
    for case in ET.parse(suite.path / "j.xml").iter("testcase"):
        skipped = case.find("skipped")
        name = case.get("name")
        assert name is not None
        found[name] = "passed" if skipped is None else str(skipped.get("message"))
    return found


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


@pytest.mark.parametrize(
    ("number", "code", "why"),
    [(signal.SIGTERM, 143, WHY), (signal.SIGINT, 2, INTERRUPTED)],
)
def test_all_reports_of_what_was_measured_are_written(
    hanging: Suite, number: int, code: int, why: str
):
    session = start(hanging)
    until(lambda: hangs(hanging), session)
    assert end(hanging, session, number) == code
    check_reports(hanging, why)


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
        session.send_signal(signal.SIGTERM)
        assert session.wait(timeout=CANCEL_S) == 143
    finally:
        holder.kill()
        holder.communicate()
    assert verdicts(suite) == dict.fromkeys(CASES, ("not-run", WHY))
    assert lease_holder() is None


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


@pytest.mark.parametrize("arguments", [["--collect-only"], ["--dlperf-list"], ["-k", "handler"]])
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


def test_runs_that_came_to_no_verdict_are_shown_and_a_later_session_goes_on_from_them(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
):
    suite.write(TESTS.replace("runs=1, max_runs=1", "runs=3, max_runs=3"))
    log = suite.path / "launches"
    suite.env(FAKE_LOG=log)
    assert suite.run("--update-baselines", "--dlperf-reason=first", "-k", "bs1").ret == 0
    suite.env(FAKE_HANG="*bs2*/run2", FAKE_STEP_S=0.02)
    session = start(suite)
    # In the second of the rounds that are measured before any test
    until(lambda: hangs(suite), session)
    until(lambda: log.read_text("utf-8").count("bs4") == 1 and hangs(suite), session)
    assert end(suite, session, signal.SIGTERM) == 143
    found = {outcome["case"]["id"]: outcome for outcome in suite.read_outcomes()}
    runs = {case_id: len(one["measurement"]["runs"]) for case_id, one in found.items()}
    assert runs == dict(zip(CASES, (2, 1, 1), strict=True))
    first = found[CASES[0]]["judgement"]
    assert first["verdict"] == "not-run"
    assert first["reason"] == (
        "2 runs were measured, and not judged: SIGTERM ended the session before its end"
    )
    # What they show is seen, and counts nowhere
    assert first["change"] == pytest.approx(-0.5, abs=0.1)
    assert first["refused"]
    shown = (suite.path / "out.txt").read_text(encoding="utf-8")
    assert f"{CASES[0]}" in shown
    assert main(["baselines", "accept", str(suite.path / "r.json"), f"--baselines={suite.path}"])

    monkeypatch.delenv("FAKE_HANG")
    log.unlink()
    result = suite.run("--dlperf-resume=r.json", "--dlperf-json=n.json")
    launched = [line.split()[0] for line in log.read_text("utf-8").splitlines()]
    assert launched == [CASES[0], *[CASES[1]] * 2, *[CASES[2]] * 2]
    values = json.loads((suite.path / "n.json").read_text(encoding="utf-8"))
    after = {outcome["case"]["id"]: outcome for outcome in values["outcomes"]}
    assert {case_id: len(one["measurement"]["runs"]) for case_id, one in after.items()} == (
        dict.fromkeys(CASES, 3)
    )
    assert after[CASES[0]]["judgement"]["verdict"] == "regressed"
    assert after[CASES[1]]["judgement"]["verdict"] == "no-baseline"
    codes = [problem["code"] for problem in after[CASES[0]]["measurement"]["problems"]]
    assert codes == ["runs-taken"]
    assert result.ret == 1

    # Of another commit, or without the folder of that session, all is measured again
    shutil.rmtree(suite.path / ".dlperf")
    log.unlink()
    result = suite.run("--dlperf-resume=r.json", "-k", "bs1")
    assert len(log.read_text("utf-8").splitlines()) == 3
    assert "are not used" in result.stdout.str()


def test_under_xdist_in_the_rounds(suite: Suite, monkeypatch: pytest.MonkeyPatch):
    suite.write(TESTS.replace("runs=1, max_runs=1", "runs=3, max_runs=3"))
    suite.env(FAKE_HANG="*bs2*/run2")
    session = start(suite, "-n2")
    until(lambda: len(written(suite.path, ".dlperf/*/*bs1*/run2")) and hangs(suite), session)
    assert end(suite, session, signal.SIGTERM) == 143
    found = {outcome["case"]["id"]: outcome for outcome in suite.read_outcomes()}
    assert set(found) == set(CASES)
    assert all(one["judgement"]["verdict"] == "not-run" for one in found.values())
    assert all(one["measurement"]["runs"] for one in found.values())
    assert len(in_junit(suite)) >= 3
    # The next one is interrupted as well, before it has measured anything
    monkeypatch.delenv("FAKE_HANG")
    suite.env(FAKE_HANG="*/run*")
    (suite.path / "before.json").write_bytes((suite.path / "r.json").read_bytes())
    session = start(suite, "--dlperf-resume=before.json")
    until(lambda: "torchrun" in "".join(suite.ours()), session)
    assert end(suite, session, signal.SIGTERM) == 143
    again = {outcome["case"]["id"]: outcome for outcome in suite.read_outcomes()}
    runs = {case_id: len(one["measurement"]["runs"]) for case_id, one in found.items()}
    assert {case_id: len(one["measurement"]["runs"]) for case_id, one in again.items()} == runs
