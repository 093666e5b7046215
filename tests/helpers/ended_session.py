"""Sessions that a signal ends: how they are started and ended, and what they wrote."""

from __future__ import annotations

import os
import subprocess
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from pytest_dlperf.launch.process.lease import lease_holder
from tests.helpers.fake_suite import Suite
from tests.helpers.own_time import OwnTime
from tests.helpers.processes import heed_interrupts

#: From SIGTERM to SIGKILL, as schedulers have it.
CANCEL_S = 10.0
REPORTS = {
    "--dlperf-json": "r.json", "--dlperf-html": "p.html", "--dlperf-md": "c.md",
    "--dlperf-metrics": "m.txt", "--junitxml": "j.xml",
}  # fmt: skip
if find_spec("sqlalchemy") is not None:
    REPORTS["--dlperf-history"] = "h.sqlite"
TESTS = """
import pytest

@pytest.mark.dlperf("w:build", launcher="torchrun", layout="1n1c", batch_size_per_device=[1, 2, 4],
                    runs=1, max_runs=1)
def test_net(dlperf):
    dlperf.run()

def test_other():
    pass
"""
#: Ids of the three cases: the first is measured, the second hangs, the third is not reached.
CASES = [f"net-torch-fp32-bs{size}-1n1c" for size in (1, 2, 4)]


def until(is_so: Callable[[], Any], session: subprocess.Popen[Any], seconds: float = 60) -> None:
    end_s = time.monotonic() + seconds
    while not is_so():
        assert session.poll() is None, "the session ended by itself"
        assert time.monotonic() < end_s
        time.sleep(0.05)


def start(
    suite: Suite,
    *arguments: str,
    preexec_fn: Callable[[], None] = heed_interrupts,
    **process: Any,
) -> subprocess.Popen[Any]:
    reports = [f"{option}={name}" for option, name in REPORTS.items()]
    with (suite.path / "out.txt").open("wb") as out:
        return suite.start(
            *reports, *arguments, stdout=out, stderr=subprocess.STDOUT,
            preexec_fn=preexec_fn, start_new_session=True, **process,
        )  # fmt: skip


def hangs(suite: Suite, run: str = "") -> bool:
    """Return whether a run of the second case lives: any, or the one of folder ``run``."""
    return any("torchrun" in line and "bs2" in line and run in line for line in suite.ours())


def end(suite: Suite, session: subprocess.Popen[Any], *signals: int, group: bool = False) -> int:
    """Send signals, and return the exit code; nothing of the session may be left."""
    time_taken = OwnTime(session)
    for number in signals:
        (os.killpg if group else os.kill)(session.pid, number)
        time.sleep(0.2)
    code = time_taken.wait()
    own_s = time_taken.own_s
    print((suite.path / "out.txt").read_text(encoding="utf-8"))  # noqa: T201
    assert own_s < CANCEL_S
    assert suite.ours() == []
    assert lease_holder() is None
    return code


def in_junit(suite: Suite) -> dict[str, str]:
    """Return what JUnit says of each test: ``passed``, or the message of the skip."""
    found = {}
    for case in ET.parse(suite.path / "j.xml").iter("testcase"):
        skipped = case.find("skipped")
        name = case.get("name")
        assert name is not None
        found[name] = "passed" if skipped is None else str(skipped.get("message"))
    return found
