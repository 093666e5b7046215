"""An interrupted session leaves nothing of ours.

Ranks that die are in test_training.py and tests/faults; pytest killed in tests/stress.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from pytest_dlperf.launch.process.lease import lease_holder
from tests.helpers.processes import heed_interrupts
from tests.helpers.user_folder import Folder
from tests.helpers.written import written

pytestmark = pytest.mark.torch


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
    end_s = time.monotonic() + 180
    while not written(folder.path, ".dlperf/*/*/run1/asleep"):
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
