"""However a run ends: a clear verdict where one can be given, and nothing of ours left.

Ranks that die later, and launchers, are in tests/faults; pytest killed in tests/stress.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from pytest_dlperf.launch.lease import lease_holder
from tests.helpers.processes import heed_interrupts
from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raises-in-build-of-one", "rank 1: RuntimeError: boom in build of one"),
        ("exits-in-build", "rank 1: SystemExit: no data here"),
    ],
)
def test_a_rank_that_dies_before_its_first_step(folder: Folder, fault: str, message: str):
    folder.write(options={"fault": fault}, timeout_s=24.0)
    result, [outcome] = folder.run()
    assert result.ret == 1
    assert outcome["judgement"]["verdict"] == "error"
    assert message in outcome["judgement"]["reason"]
    assert folder.ours() == []
    assert lease_holder() is None


def test_pytest_is_interrupted(folder: Folder):
    folder.write(layout="1n1c", options={"fault": "sleeps-alone"}, launcher="torchrun")
    session = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=folder.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(os.environ),
        preexec_fn=heed_interrupts,  # noqa: PLW1509
    )
    end_s = time.monotonic() + 60
    while not list(folder.path.glob(".dlperf/*/*/run1/asleep")):
        assert time.monotonic() < end_s, "the rank never fell asleep"
        time.sleep(0.05)
    assert folder.ours()
    assert lease_holder() is not None
    session.send_signal(signal.SIGINT)
    output = session.communicate(timeout=60)[0].decode()
    end_s = time.monotonic() + 15
    while lease_holder() is not None:
        assert time.monotonic() < end_s, "the lease was never freed"
        time.sleep(0.05)
    assert folder.ours() == []
    assert session.returncode != 0
    assert "KeyboardInterrupt" in output
