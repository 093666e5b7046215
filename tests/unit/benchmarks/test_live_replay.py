"""The replay of recorded live sessions, on files made by hand."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

import live_replay
from pytest_dlperf.core.verdict import Rule

pytestmark = pytest.mark.once


def write(path: Path, count: int, **fields: Any) -> Path:
    """Write unchanged sessions of one case, whose runs vary by 2 %."""
    draw = random.Random(1)
    lines = []
    for number in range(count):
        rates = [math.exp(draw.gauss(0, 0.02)) for _ in range(3)]
        one = {
            "way": "stored-1",
            "planted": "0",
            "case": "toy",
            "time": f"2026-01-01T00:{number:02}:00Z",
            "runs": [[rate, rate, 100.0] for rate in rates],
        }
        lines.append(json.dumps(one | fields))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_each_session_is_judged_by_those_before_it(tmp_path: Path):
    block = live_replay.sessions_in_a_row(write(tmp_path / "o.jsonl", 14))["toy"]
    found = list(live_replay.replay("toy", block, 5, [0.0, 0.4], Rule(tolerance=0.2)))
    assert {one.session for one in found} == {("toy", number) for number in range(6, 14)}
    assert len(found) == 8 * live_replay.DRAWS * 2
    [_, _, unchanged, planted] = live_replay.table(found).splitlines()
    assert unchanged.startswith("| 0% | 8 | 32 | 100.0% | 0.0% |")
    assert planted.startswith("| 40% | 8 | 32 | 0.0% | 100.0% |")


def test_sessions_that_show_nothing_are_left_out(tmp_path: Path):
    for fields in (
        {"planted": "5%"},
        {"way": "lock-step"},
        {"neighbour": True},
        {"runs": []},
    ):
        assert not live_replay.sessions_in_a_row(write(tmp_path / "o.jsonl", 14, **fields))
    assert not live_replay.sessions_in_a_row(write(tmp_path / "o.jsonl", 11))
