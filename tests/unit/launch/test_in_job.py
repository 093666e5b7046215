"""The first process of a job, for real: it runs a command while its session lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_dlperf.launch.schedulers import in_job
from pytest_dlperf.launch.schedulers.slurm_job import Heartbeat

pytestmark = pytest.mark.newest


def start(beat: Path, *command: str, limit_s: float = 60) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable, "-I", in_job.__file__, f"--heartbeat={beat}", f"--limit-s={limit_s}",
            "--", *command,
        ]
    )  # fmt: skip


@pytest.fixture
def beat(tmp_path: Path):
    heartbeat = Heartbeat(tmp_path / "beat")
    yield heartbeat
    heartbeat.stop()


@pytest.mark.parametrize(("code", "told"), [(0, 0), (1, 0), (4, 4)])
def test_pytests_failed_tests_are_no_failure_of_the_job(beat: Heartbeat, code: int, told: int):
    with start(beat.path, "sh", "-c", f"exit {code}") as process:
        assert process.wait(timeout=60) == told


def test_nothing_starts_for_a_session_that_is_gone(tmp_path: Path):
    (tmp_path / "beat").write_text("7\n")
    with start(tmp_path / "beat", "touch", str(tmp_path / "ran"), limit_s=1) as process:
        assert process.wait(timeout=60) == in_job.LOST
    assert not (tmp_path / "ran").exists()


@pytest.mark.once
def test_the_command_ends_when_the_session_does(tmp_path: Path):
    heartbeat = Heartbeat(tmp_path / "beat")
    pid = tmp_path / "pid"
    command = f"echo $$ > {pid}.part; mv {pid}.part {pid}; exec sleep 1000"
    with start(heartbeat.path, "sh", "-c", command, limit_s=10) as process:
        while not pid.exists():
            assert process.poll() is None
            time.sleep(0.05)
        heartbeat.stop()
        assert process.wait(timeout=60) == in_job.LOST
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_cancel_ends_the_command(beat: Heartbeat, tmp_path: Path):
    pid = tmp_path / "pid"
    command = f"echo $$ > {pid}.part; mv {pid}.part {pid}; exec sleep 1000"
    with start(beat.path, "sh", "-c", command) as process:
        while not pid.exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_a_cancel_while_the_command_starts_ends_it(monkeypatch: pytest.MonkeyPatch):
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def cancelled(command: list[str]) -> subprocess.Popen[bytes]:
        started.append(popen(command))
        os.kill(os.getpid(), signal.SIGTERM)
        return started[0]

    monkeypatch.setattr(in_job.subprocess, "Popen", cancelled)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with pytest.raises(SystemExit) as left:
            in_job._started(["sleep", "1000"])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert left.value.code == 143
    assert started[0].returncode == -signal.SIGTERM
