"""A pair in lock-step while one arm is frozen: who dies, and what is left, is stopped, is said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_dlperf.launch.process.lease import lease_holder
from tests.helpers.fake_repository import git
from tests.helpers.frozen_run import cgroups_of_runs, has_cgroups, letter
from tests.helpers.perf_project import PerfProject, perf_test
from tests.helpers.processes import heed_interrupts
from tests.helpers.written import written

#: From the signal to SIGKILL, as CI systems have it.
CANCEL_S = 10.0
#: The arm that has the turn stays in it for as long as there is a file.
PROGRAM = """
import os, sys, time
from pathlib import Path

import net
from pytest_dlperf.mark import step

SEEN = Path(os.environ["SEEN"])
ARM = "before" if "/before/" in os.environ["DLPERF_RUN"] else "now"

for done in range(int(sys.argv[1])):
    with step() as one:
        time.sleep(0.002)
        if done == 6:
            (SEEN / f"{ARM}-{os.getpid()}").touch()
        if done == 12:
            net.at_12(ARM, SEEN)
        one.loss(1 / (done + 1))
"""
FINE = "def at_12(arm, seen):\n    pass\n"
HOLDS = """
import time

def at_12(arm, seen):
    while arm == "now" and (seen / "hold").exists():
        time.sleep(0.01)
"""
DIES = "import os\n\ndef at_12(arm, seen):\n    os.kill(os.getpid(), 9)\n"
HANGS = "import time\n\ndef at_12(arm, seen):\n    time.sleep(1000)\n"
#: Of a process that sees no cgroup that it may change.
READ_ONLY = (
    "for at in $(awk '$3 == \"cgroup2\" {print $2}' /proc/mounts); do "
    'mount -o remount,bind,ro "$at"; done; exec "$@"'
)


class Pair(PerfProject):
    """A repository of which two commits are in lock-step, frozen by cgroups or signals."""

    def __init__(self, path: Path, by: str, prefix: list[str]) -> None:
        super().__init__(path)
        self.by = by
        #: Those of the session, once an arm is held.
        self.cgroups: list[Path] = []
        self.prefix = prefix
        self.output = path / "tmp" / "output"
        self.seen = path / "seen"
        self.seen.mkdir()
        self.environment = {"SEEN": str(self.seen), "TMPDIR": str(path / "tmp")}
        (path / "tmp").mkdir()
        self.write_file("program.py", PROGRAM)
        self.write_file(".gitignore", "r.json\nruntime\nseen\ntmp\n__pycache__\n.dlperf\n")
        git(self, "init", "-q", "-b", "main")

    def commit(self, net: str, *, timeout_s: float = 60.0) -> None:
        # Below a shell, as ranks are below a launcher
        command = ["sh", "-c", f"{sys.executable} program.py {{iterations}}; exit $?"]
        self.write_tests(
            perf_test(
                command=command, launcher=None, layout="1n1c", precision="fp32",
                batch_size_per_device=8, iterations=40, warmup=5, runs=1, max_runs=1,
                timeout_s=timeout_s,
            )
        )  # fmt: skip
        self.write_file("net.py", net)
        git(self, "add", ".")
        git(self, "commit", "-q", "--allow-empty", "-m", "net")

    def command(self, *arguments: str) -> list[str]:
        command = super().command(
            "--dlperf-against=HEAD~1", "--dlperf-pairs=lock-step", *arguments
        )
        return [*self.prefix, *command]

    def hold(self) -> subprocess.Popen[bytes]:
        """Start a session; return it once ``before`` is frozen in the turn of the other arm."""
        (self.seen / "hold").touch()
        with self.output.open("wb") as output:
            session = self.start(
                f"--dlperf-json={self.results}",
                preexec_fn=heed_interrupts,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        end_s = time.monotonic() + 50
        while not self.is_frozen():
            assert session.poll() is None, self.output.read_text()
            ranks = list(self.seen.iterdir()), letter(self.rank("before")), cgroups_of_runs()
            assert time.monotonic() < end_s, f"not frozen: {ranks} {self.output.read_text()}"
            time.sleep(0.01)
        names = {cgroup_name(self.rank(arm)) for arm in ("now", "before")}
        self.cgroups = [path for path in cgroups_of_runs() if path.name in names]
        assert len(self.cgroups) == (2 if self.by == "cgroup" else 0)
        return session

    def rank(self, arm: str) -> int:
        """Return the pid of the rank of an arm; 0 before its window."""
        pids = written(self.seen, f"{arm}-*")
        return int(pids[-1].name.partition("-")[2]) if pids else 0

    def launcher(self, arm: str) -> int:
        return parent(self.rank(arm))

    def supervisor(self, arm: str) -> int:
        return parent(self.launcher(arm))

    def guard(self, arm: str) -> int:
        """Return the other child of the supervisor."""
        folder = Path(f"/proc/{self.supervisor(arm)}/task/{self.supervisor(arm)}/children")
        [guard] = set(map(int, folder.read_text().split())) - {self.launcher(arm)}
        return guard

    def is_frozen(self) -> bool:
        """Return whether ``before`` is frozen for longer than a turn: the other one is held."""
        rank, now = self.rank("before"), self.rank("now")
        if not rank or not now:
            return False
        for _ in range(5):
            if self.by == "signals" and letter(rank) != "T":
                return False
            if self.by == "cgroup" and not is_in_frozen_cgroup(rank):
                return False
            time.sleep(0.1)
        return True

    def is_clean(self) -> bool:
        """Return whether no process of a run lives, no cgroup is left, and the host is free."""
        left = [cgroup for cgroup in self.cgroups if cgroup.exists()]
        return not self.ours() and not left and lease_holder() is None

    def wait_until_clean(self) -> float:
        """Return after how many seconds nothing was left."""
        began_s = time.monotonic()
        while not self.is_clean():
            assert time.monotonic() - began_s < 60, (self.ours(), self.cgroups)
            time.sleep(0.02)
        return time.monotonic() - began_s

    def judged(self, session: subprocess.Popen[bytes]) -> tuple[str, str]:
        """Return the verdict of the session, once it has ended, and the first line of why."""
        session.wait(timeout=120)
        path = self.path / self.results
        assert path.exists(), self.output.read_text()
        [outcome] = json.loads(path.read_text(encoding="utf-8"))["outcomes"]
        judgement = outcome["judgement"]
        return judgement["verdict"], judgement["reason"].partition("\n")[0]


def parent(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    return int(text.rpartition(")")[2].split()[1])


def cgroup_name(pid: int) -> str:
    """Return the name of the cgroup that a process is in; empty without one."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return ""
    return next((line.rpartition("/")[2] for line in lines if line.startswith("0::")), "")


def is_in_frozen_cgroup(pid: int) -> bool:
    name = cgroup_name(pid)
    return any(
        path.name == name and "frozen 1" in (path / "cgroup.events").read_text()
        for path in cgroups_of_runs()
    )


@pytest.fixture(params=["cgroup", "signals"])
def pair(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Pair]:
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    prefix: list[str] = []
    if request.param == "cgroup" and not has_cgroups():
        pytest.skip("no cgroup can be made here")
    if request.param == "signals" and has_cgroups():
        prefix = ["unshare", "-m", "sh", "-c", READ_ONLY, "sh"]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
            pytest.skip("no file system can be made read-only here")
    pair = Pair(pytester.path, request.param, prefix)
    yield pair
    (pair.seen / "hold").unlink(missing_ok=True)


@pytest.fixture
def held(pair: Pair) -> Iterator[tuple[Pair, subprocess.Popen[bytes]]]:
    """A session in which ``before`` is frozen, while ``now`` stays in its turn."""
    pair.commit(FINE)
    pair.commit(HOLDS)
    session = pair.hold()
    yield pair, session
    session.kill()
    session.wait()
    pair.wait_until_clean()


Held = tuple[Pair, "subprocess.Popen[bytes]"]


def test_what_was_frozen_goes_on(held: Held):
    pair, session = held
    (pair.seen / "hold").unlink()
    verdict, why = pair.judged(session)
    assert verdict != "error", why
    assert pair.wait_until_clean() < CANCEL_S


@pytest.mark.parametrize(
    ("numbers", "statuses"),
    [
        ([signal.SIGKILL], {-9}),
        ([signal.SIGTERM], {143}),
        # The second one may come while pytest itself writes its reports
        ([signal.SIGINT, signal.SIGINT], {2, -2}),
    ],
    ids=["SIGKILL", "SIGTERM", "SIGINT twice"],
)
def test_the_end_of_pytest_ends_what_is_frozen(held: Held, numbers: list[int], statuses: set[int]):
    pair, session = held
    for number in numbers:
        session.send_signal(number)
        time.sleep(0.3)
    assert session.wait(timeout=60) in statuses
    assert pair.wait_until_clean() < CANCEL_S


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_pytest_ends_whose_supervisor_was_stopped(held: Held, number: int):
    pair, session = held
    os.kill(pair.supervisor("before"), signal.SIGSTOP)
    began_s = time.monotonic()
    supervisor = pair.supervisor("before")
    session.send_signal(number)
    session.wait(timeout=60)
    if number == signal.SIGKILL:
        os.kill(supervisor, signal.SIGCONT)  # nobody else does
    pair.wait_until_clean()
    assert time.monotonic() - began_s < CANCEL_S


@pytest.mark.parametrize(
    "killed",
    [
        ["rank"],
        ["supervisor"],
        ["guard", "supervisor"],
        pytest.param(["launcher"], marks=pytest.mark.nightly),
        pytest.param(["guard"], marks=pytest.mark.nightly),
        pytest.param(["supervisor", "guard"], marks=pytest.mark.nightly),
    ],
    ids="-".join,
)
def test_a_process_of_the_frozen_arm_is_killed(held: Held, killed: list[str]):
    pair, session = held
    pids = [getattr(pair, name)("before") for name in killed]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    (pair.seen / "hold").unlink()
    verdict, why = pair.judged(session)
    assert pair.wait_until_clean() < CANCEL_S
    if killed == ["guard"]:
        assert verdict != "error", why  # it is started again
        return
    assert session.returncode == 1
    assert "against HEAD~1" in why
    expected = {
        "rank": "the program ended with exit code 137",
        "launcher": "the program was killed by signal 9",
    }
    assert expected.get(killed[0], "the supervisor of the run was killed") in why


def test_pytest_and_the_supervisor_are_killed_together(held: Held):
    pair, session = held
    for pid in (pair.supervisor("before"), session.pid):
        os.kill(pid, signal.SIGKILL)
    session.wait()
    assert pair.wait_until_clean() < CANCEL_S


@pytest.mark.parametrize(
    ("net", "says"),
    [
        pytest.param(DIES, "with exit code 137", id="dies", marks=pytest.mark.nightly),
        pytest.param(HANGS, "timed out after", id="hangs"),
    ],
)
# Each waits for its timeout.
@pytest.mark.parametrize("arm", [pytest.param("now", marks=pytest.mark.nightly), "before"])
def test_the_arm_that_fails_in_its_turn_is_named(pair: Pair, net: str, says: str, arm: str):
    for version in (FINE, net) if arm == "now" else (net, FINE):
        pair.commit(version, timeout_s=6.0)
    result, [outcome] = pair.measured()
    said = outcome["judgement"]["reason"].partition("\n")[0]
    assert result.ret == 1
    assert says in said
    assert ("against HEAD~1" in said) is (arm == "before")
    assert pair.wait_until_clean() < CANCEL_S
