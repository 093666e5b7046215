"""A host that is taken: who has it is said on every kind of output, once, when waiting begins."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them


HOLDER = """
from pytest_dlperf.launch.process.lease import host_lease
with host_lease("other-case"):
    print("held", flush=True)
    input()
"""


@pytest.mark.parametrize(
    "how",
    [
        (),
        pytest.param(("-q",), marks=pytest.mark.nightly),
        ("-qq",),
        ("-p", "no:terminal"),
        ("-n2",),
        pytest.param(("-s",), marks=pytest.mark.nightly),
    ],
)
def test_who_has_the_host_is_said(suite: Suite, how: tuple[str, ...]):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    log = suite.path / "session.log"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dlperf-runs=1", *how]
    try:
        with log.open("wb") as file:
            session = subprocess.Popen(
                command, cwd=suite.path, stdout=file, stderr=subprocess.STDOUT, env=os.environ
            )
        words = f"waiting for this host, held by pid {holder.pid} (other-case)"
        wait_for(log, words, session)
    finally:
        holder.communicate(b"\n")
    assert session.wait(timeout=120) == 0, log.read_text(encoding="utf-8")
    text = log.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if words in line]
    waited = 2 if how == ("-n2",) else 1
    assert 1 <= len(lines) <= waited
    words += "; --dlperf-share-host measures beside it, and less steadily"
    assert all(line.endswith(words) and "net-torch-fp32-bs4-1n" in line for line in lines)
    assert re.search(
        r"net-torch-fp32-bs4-1n\w+: waited \d+:\d\d for this host, and has it\n", text
    )
    if how == ("-n2",):
        assert lines[0].startswith("[gw")


def wait_for(log: Path, words: str, session: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + 60
    while words not in log.read_text(encoding="utf-8"):
        assert session.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < end_s, f"it never said {words!r}"
        time.sleep(0.05)
