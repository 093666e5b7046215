"""The end of pytest itself: a CI system's cancel leaves about 10 s."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.helpers.scene import Scene

#: From SIGTERM to SIGKILL, as CI systems have it.
CANCEL_S = 10.0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_pytest_ends(scene: Scene, number: signal.Signals):
    scene.program("before")
    scene.program("faulty", "ignores-sigterm")
    session = scene.start()
    scene.wait_for(".dlperf/*/faulty*/fault-at")
    at_s = time.time()
    session.send_signal(number)
    gone_s = scene.wait_until_free() - at_s
    result = scene.ended(session)
    assert result.status != 0
    # What was measured before is kept, and nothing is told of the rest.
    assert list(result.outcomes) == ["before"]
    assert gone_s < CANCEL_S
    scene.row(f"pytest gets {number.name}", f"exit status {result.status}", "none", gone_s)
    # The next session runs.
    assert json.loads((scene.path / "r.json").read_text(encoding="utf-8"))["format"] == 1
    again = scene.ended(scene.start("-k", "fine"))
    scene.check_measured(again.outcomes["fine"])
