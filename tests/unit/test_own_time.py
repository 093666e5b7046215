"""A bound on a program's own time holds beside other work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.own_time import OwnTime


def test_time_that_passes_on_a_quiet_machine_is_a_programs_own():
    taken = OwnTime()
    time.sleep(0.2)
    assert taken.elapsed_s >= 0.2
    assert 0.0 <= taken.own_s <= taken.elapsed_s


@pytest.mark.skipif(
    not Path("/proc/pressure/cpu").exists(), reason="this kernel does not count waits for a CPU"
)
def test_what_waits_for_a_cpu_is_not_its_own():
    busy = "import time; end = time.monotonic() + 1.5\nwhile time.monotonic() < end: pass"
    taken = OwnTime()
    number = 4 * (os.cpu_count() or 1)
    programs = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(number)]
    for program in programs:
        assert program.wait(timeout=60) == 0
    elapsed_s = taken.elapsed_s
    assert taken.own_s < 0.9 * elapsed_s
