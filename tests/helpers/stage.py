"""A folder with perf tests on a program that reports when it trains, and the sessions in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

#: Trains nothing, at a rate that hardly varies; fails if another one trains at the same time.
PROGRAM = """
import fcntl, os, random, sys, time
alone = open(os.environ["STRESS_FOLDER"] + "/alone", "w")
log = os.open(os.environ["STRESS_FOLDER"] + "/moments", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def tell(what):
    os.write(log, f"{what} {os.getpid()} {time.monotonic()}\\n".encode())

try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    tell("overlap")
    sys.exit("two cases are measured at once")
tell("begin")
time.sleep(float(os.environ["STRESS_RUN_S"]))
step_s = random.gauss(0.01, 0.00002)
for step in range(1, 151):
    print(f"step {step}: {step_s:.6f} s")
tell("end")
"""
TESTS = f"""
import pytest
from pytest_dlperf import pattern

LOG = pattern(r"step (?P<step>[0-9]+): (?P<seconds>[0-9.]+) s", scope="device", unit="images")

@pytest.mark.dlperf(command=[{sys.executable!r}, "program.py"], log_format=LOG, layout="1n1c",
                    launcher=None, framework="torch", batch_size_per_device=[1, 2, 3, 4],
                    unit="images", runs=2, timeout_s=60)
def test_net(dlperf):
    dlperf.run()
"""
#: A disk on which a write takes long, so that sessions are killed amid writes too.
SLOW_DISK = """
import os, time

def slow(real):
    def slowed(*arguments, **keywords):
        time.sleep(0.02)
        result = real(*arguments, **keywords)
        time.sleep(0.02)
        return result
    return slowed

os.fsync, os.replace = slow(os.fsync), slow(os.replace)
"""
CASES = 4


class Stage:
    """The folder, and what is common to its sessions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runtime = path / "runtime"
        self.temporary = path / "temporary"
        self.temporary.mkdir()
        self.moments = path / "moments"
        self.moments.touch()
        (path / "program.py").write_text(PROGRAM)
        (path / "test_net.py").write_text(TESTS)
        (path / "pytest.ini").write_text("[pytest]\n")
        #: In the environment of every process that a session of this stage starts.
        self.mark = f"STRESS_MARK={uuid.uuid4()}"

    def start(
        self, name: str, *arguments: str, run_s: float = 0.2, results: str = ""
    ) -> subprocess.Popen[bytes]:
        """Start a session; its output is in ``<name>.log``, its results in ``<name>.json``.

        Or in ``<results>.json``.
        """
        key, _, value = self.mark.partition("=")
        environment = {
            **os.environ,
            "DLPERF_RUNTIME_DIR": str(self.runtime),
            "TMPDIR": str(self.temporary),
            "STRESS_FOLDER": str(self.path),
            "STRESS_RUN_S": str(run_s),
            "PYTEST_ADDOPTS": "-p no:hypothesispytest",
            key: value,
        }
        # A session of this one's xdist worker is no worker.
        for name_of_xdist in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_TESTRUNUID"):
            environment.pop(name_of_xdist, None)
        with (self.path / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [
                    sys.executable, "-m", "pytest", "-p", "no:cacheprovider",
                    f"--dlperf-json={results or name}.json", "--update-baselines",
                    "--dlperf-reason=stress", *arguments,
                ],
                cwd=self.path,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
            )  # fmt: skip

    def log(self, name: str) -> str:
        return (self.path / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def outcomes(self, name: str) -> dict[str, Any]:
        values = json.loads((self.path / f"{name}.json").read_text(encoding="utf-8"))
        return {outcome["case"]["id"]: outcome for outcome in values["outcomes"]}

    def told(self, what: str) -> list[float]:
        """Return the moments at which programs reported ``what``."""
        lines = [line.split() for line in self.moments.read_text(encoding="ascii").splitlines()]
        return [float(at_s) for told, _, at_s in lines if told == what]

    def living(self) -> list[str]:
        """Return the processes that sessions have started, and that live."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (entry / "environ").read_bytes().split(b"\0"):
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append(f"{entry.name} {command}")
            except OSError:
                continue  # it ended while we looked, or is somebody else's
        return found


def wait_until(
    holds: Callable[[], object], sessions: Sequence[subprocess.Popen[bytes]], *, at_most_s: float
) -> bool:
    """Return whether ``holds`` came true before every session had ended."""
    end_s = time.monotonic() + at_most_s
    while not holds():
        if all(session.poll() is not None for session in sessions):
            return bool(holds())
        assert time.monotonic() < end_s, "the session hangs"
        time.sleep(0.003)
    return True
