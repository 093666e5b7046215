"""However a run ends: a clear verdict where one can be given, and nothing of ours left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from user_folder import Folder

from pytest_dlperf.launch.lease import lease_holder

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises", "rank 1: ValueError: boom in step"),
        ("raises-in-build-of-one", "rank 1: RuntimeError: boom in build of one"),
        ("exits-in-build", "rank 1: SystemExit: no data here"),
        ("killed", "rank 1 stopped at iteration 4 of 30, without a word"),
        ("exits", "rank 1 stopped at iteration 4 of 30, without a word"),
        ("sleeps", "rank 1 stopped at iteration 4 of 30, without a word"),
        ("launcher-killed", "the launcher was killed by signal 9"),
    ],
)
def test_a_rank_or_launcher_that_dies(folder: Folder, fault: str, message: str):
    folder.write(options={"fault": fault}, timeout_s=24.0)
    result, [outcome] = folder.run()
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert message in outcome["judgement"]["reason"]
    assert folder.ours() == []
    assert lease_holder() is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_pytest_itself_ends(folder: Folder, number: signal.Signals):
    folder.write(layout="1n1c", options={"fault": "sleeps-alone"}, launcher="torchrun")
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=folder.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(os.environ),
        # A shell's background job ignores Ctrl-C, and hands that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    end_s = time.monotonic() + 60
    while not list(folder.path.glob(".dlperf/*/*/run1/asleep")):
        assert time.monotonic() < end_s, "the rank never fell asleep"
        time.sleep(0.05)
    assert folder.ours()
    assert lease_holder() is not None
    session.send_signal(number)
    output = session.communicate(timeout=60)[0].decode()
    end_s = time.monotonic() + 15
    while lease_holder() is not None:
        assert time.monotonic() < end_s, "the lease was never freed"
        time.sleep(0.05)
    assert folder.ours() == []
    assert session.returncode != 0
    if number is signal.SIGINT:
        assert "KeyboardInterrupt" in output
