"""The line that moves on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from tests.helpers.fake_suite import Suite


def on_a_terminal(suite: Suite, *arguments: str) -> str:
    """Return what a session writes to a terminal of 80 columns."""
    mine, theirs = pty.openpty()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    environment.pop("PY_COLORS", None)  # of pytester, which wants none
    session = subprocess.Popen(
        command, cwd=suite.path, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            part = os.read(mine, 65536)
        except OSError:  # the other end is closed: Linux's end of file
            break
        if not part:
            break
        written += part
    os.close(mine)
    assert session.wait(timeout=60) == 0, written.decode()
    return written.decode()


@pytest.mark.slow
def test_it_has_case_run_and_iteration_and_never_wraps(suite: Suite):
    suite.env(FAKE_WALL_S=0.6)
    suite.write(
        "import pytest\n"
        "@pytest.mark.dlperf('w:build', launcher='torchrun', layout=['1n1c', '1n2c'],\n"
        f"                    batch_size_per_device=4, suite='{'a_long_name_' * 6}')\n"
        "def test_net(dlperf):\n"
        "    dlperf.run()\n"
    )
    written = on_a_terminal(suite, "--dlperf-runs=1")
    frames = [frame for frame in re.split(r"[\r\n]", written) if re.match(r"\[\d/2\]", frame)]
    assert max(len(frame.rstrip()) for frame in frames) < 80, repr(written)
    assert any(re.match(r"\[2/2\] a_long_.*….*-1n2c run 1/1 50/150", frame) for frame in frames)
    # What pytest tells of a case stands on a line of its own.
    assert re.search(r"samples/s *\r?\n\r?(\x1b\[33m)?N", written), repr(written)
    assert "\x1b[33mno-baseline" in written
