"""A machine that is slowed from outside is no regression of what trains on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.helpers.user_folder import Folder

# Minutes of sessions on cores that are kept busy; slowed runs are simulated in tests/plugin.
pytestmark = [pytest.mark.torch, pytest.mark.nightly]


@pytest.fixture
def busy_cores() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start a busy process on each core when asked; end them, whatever happens."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
    for process in started:
        process.wait()


def occupy(started: list[subprocess.Popen[bytes]]) -> None:
    for core in sorted(os.sched_getaffinity(0)):
        program = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
        started.append(subprocess.Popen([sys.executable, "-c", program]))


def test_busy_cores_are_never_a_regression(
    folder: Folder, busy_cores: list[subprocess.Popen[bytes]]
):
    folder.write(
        layout="1n2c", batch_size_per_device=512, iterations=150, warmup=50, runs=3, max_runs=4
    )
    _, [before] = folder.run("--update-baselines", "--dlperf-reason=the test's own")
    assert before["update"] == "created"
    occupy(busy_cores)
    result, [now] = folder.run()
    verdict, measurement = now["judgement"]["verdict"], now["measurement"]
    assert verdict != "regressed", now["judgement"]["reason"]
    # What busy cores did is seen: runs do not count, or nothing is certified by them.
    assert measurement["disturbed_runs"] or verdict in {"incomparable", "unsteady", "inconclusive"}
    # The busy processes were seen, whatever else this machine does.
    seen = [*measurement["runs"], *measurement["disturbed_runs"]]
    assert any("others used" in run["disturbed"] for run in seen)
    assert result.ret == 0
