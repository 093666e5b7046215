"""What the conductor's report says of a launch's end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.run import EndReason, RunEnd
from pytest_dlperf.launch.remote.over_hosts import how_nodes_ended

GONE, NOT_STARTED = EndReason.NODE_GONE, EndReason.NODE_NOT_STARTED
EXITED = {"node": "node1", "end": "exited", "exit_code": 0}
LOST = {"node": "node2", "end": "lost", "exit_code": None, "silent_s": 15.6}
UNREACHED = {"node": "node3", "end": "not-reached", "exit_code": None, "silent_s": 1.0}
NO_FILE = {"node": "node4", "end": "not-started", "exit_code": None, "message": "/p: No such file"}

NO_FIFO = {
    "node": "node5", "end": "no-turns", "exit_code": None,
    "message": "/r/turn: Operation not permitted",
}  # fmt: skip


@pytest.mark.parametrize(
    ("end", "nodes", "reason", "message"),
    [
        ("failed", [EXITED, LOST], GONE, "node2 was lost, 16 s after it was heard last"),
        ("not-reached", [EXITED, UNREACHED], GONE, "node3 cannot be reached: it gave no answer"),
        ("failed", [NO_FILE], NOT_STARTED, "node4 could not start the launcher: /p: No such file"),
        (
            "failed",
            [EXITED, NO_FIFO],
            EndReason.NO_TURNS,
            "node5: /r/turn: Operation not permitted",
        ),
        (
            "failed",
            [NO_FILE, LOST],
            GONE,
            "node4 could not start the launcher: /p: No such file; node2 was lost, 16 s after it "
            "was heard last",
        ),
    ],
)
def test_nodes_cause_the_end(
    tmp_path: Path, end: str, nodes: list[dict[str, Any]], reason: EndReason, message: str
):
    (tmp_path / "nodes.json").write_text(json.dumps({"end": end, "nodes": nodes}))
    ended = how_nodes_ended(tmp_path).end
    assert ended == RunEnd(reason=reason, message=message)
    assert ended is not None
    assert ended.nodes == ("" if reason is EndReason.NO_TURNS else message)


def test_nodes_that_end_by_themselves_or_are_asked_to_cause_none(tmp_path: Path):
    """A node that is not reached before others were asked to end has not failed."""
    report = {"end": "asked-to-end", "nodes": [EXITED, UNREACHED]}
    (tmp_path / "nodes.json").write_text(json.dumps(report))
    assert how_nodes_ended(tmp_path).end is None
