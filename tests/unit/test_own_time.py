"""A bound on a session's own time holds beside other work, and sees what the session waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.own_time import OwnTime

pytestmark = pytest.mark.newest

BUSY = "import time; end = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


def test_a_wait_of_its_own_counts():
    taken = OwnTime(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"]))
    assert taken.wait() == 0
    assert 0.5 <= taken.own_s <= taken.elapsed_s


def test_a_session_that_does_not_end_is_an_error():
    session = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            OwnTime(session).wait(timeout_s=0.2)
    finally:
        session.kill()
        session.wait()


@pytest.mark.skipif(
    not Path("/proc/self/schedstat").exists(), reason="this kernel does not count waits for a CPU"
)
def test_what_waits_for_a_cpu_is_not_its_own():
    others = [
        subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(4 * (os.cpu_count() or 1))
    ]
    taken = OwnTime(subprocess.Popen([sys.executable, "-c", BUSY]))
    assert taken.wait() == 0
    own_s, elapsed_s = taken.own_s, taken.elapsed_s
    for other in others:
        assert other.wait(timeout=60) == 0
    assert own_s < 0.9 * elapsed_s
