"""The end of pytest itself: a CI system's cancel leaves about 10 s."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.helpers.scene import Scene

#: From SIGTERM to SIGKILL, as CI systems have it.
CANCEL_S = 10.0


@pytest.mark.parametrize(
    "number",
    [
        # In the gate PyTorch's ranks are interrupted in tests/torch/test_ends.py.
        pytest.param(signal.SIGINT, marks=pytest.mark.nightly),
        signal.SIGTERM,
        signal.SIGKILL,
    ],
)
def test_pytest_ends(scene: Scene, number: signal.Signals):
    scene.program("before")
    scene.program("faulty", "ignores-sigterm")
    session = scene.start()
    scene.wait_for(".dlperf/*/faulty*/fault-at")
    at_s = time.time()
    session.send_signal(number)
    gone_s = scene.wait_until_free() - at_s
    result = scene.ended(session)
    statuses = {signal.SIGINT: 2, signal.SIGTERM: 143, signal.SIGKILL: -9}
    assert result.status == statuses[number]
    # What was measured before is kept, and the rest is visible where anything could be written.
    scene.check_measured(result.outcomes["before"])
    rest = {name: o["judgement"]["verdict"] for name, o in result.outcomes.items()}
    del rest["before"]
    missing = {"faulty": "not-run", "fine": "not-run"}
    if number == signal.SIGKILL:
        # The results say what was going on; of what was to come nobody could write.
        missing = {"faulty": "error"}
    assert rest == missing
    verdict = "not-run" if missing else "none"
    assert gone_s < CANCEL_S
    scene.row(f"pytest gets {number.name}", f"exit status {result.status}", verdict, gone_s)
    # The next session runs.
    assert json.loads((scene.path / "r.json").read_text(encoding="utf-8"))["format"] == 1
    again = scene.ended(scene.start("-k", "fine"))
    scene.check_measured(again.outcomes["fine"])
