"""The comment of a session that ended before it measured takes the place of the one before it."""

from __future__ import annotations

import pytest

from tests.helpers.fake_suite import Suite

pytestmark = pytest.mark.slow  # many sessions; .ci/run has them

#: Whom a shell starts in the background inherits that interrupts are ignored.
CANCELLED = """
import os, signal

signal.signal(signal.SIGINT, signal.default_int_handler)

def pytest_runtest_setup(item):
    os.kill(os.getpid(), signal.{signal})
"""
RAISES = """
import pytest

def pytest_runtest_setup(item):
    raise {error}
"""


@pytest.mark.parametrize(
    "conftest",
    [
        CANCELLED.format(signal="SIGTERM"),
        pytest.param(CANCELLED.format(signal="SIGINT"), marks=pytest.mark.nightly),
        pytest.param(RAISES.format(error="pytest.exit('enough')"), marks=pytest.mark.nightly),
        RAISES.format(error="RuntimeError('no scratch disk')"),
        "def pytest_collection_modifyitems(items):\n    items.clear()\n",
        pytest.param(
            "def pytest_collection_modifyitems(items):\n    raise KeyboardInterrupt\n",
            marks=pytest.mark.nightly,
        ),
    ],
    ids=["SIGTERM", "Ctrl-C", "exit", "error", "left out", "while collecting"],
)
def test_a_session_that_ended_before_it_measured_has_the_marker_of_the_others(
    suite: Suite, conftest: str
):
    asked = ("--dlperf-md=c.md", "--dlperf-runs=1", "-k", "1n1c")
    suite.run(*asked)
    before = (suite.path / "c.md").read_text(encoding="utf-8")
    assert "no-baseline" in before
    suite.write_file("conftest.py", conftest)
    suite.run(*asked)
    after = (suite.path / "c.md").read_text(encoding="utf-8")
    assert after != before
    assert after.splitlines()[0] == before.splitlines()[0]


def test_workers_that_are_killed_leave_the_marker(suite: Suite):
    suite.run("--dlperf-md=c.md", "--dlperf-runs=1", "-k", "1n1c")
    before = (suite.path / "c.md").read_text(encoding="utf-8")
    suite.write_file("conftest.py", CANCELLED.format(signal="SIGKILL"))
    suite.run("--dlperf-md=c.md", "--dlperf-runs=1", "-k", "1n1c", "-n1", "--max-worker-restart=0")
    after = (suite.path / "c.md").read_text(encoding="utf-8")
    assert after != before
    assert after.splitlines()[0] == before.splitlines()[0]
