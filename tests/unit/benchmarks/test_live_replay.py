"""The replay of recorded live sessions, on files made by hand."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

import live_replay


def write(path: Path, count: int, differ: float = 0.0, **fields: Any) -> Path:
    """Write unchanged sessions of one case: its rates follow the machine's speed 1.6 times.

    Slopes ``differ`` by that standard deviation from session to session.
    """
    draw = random.Random(1)
    lines = []
    for number in range(count):
        machine, slope = draw.gauss(0, 0.08), draw.gauss(1.6, differ)
        speeds = [math.exp(machine + draw.gauss(0, 0.03)) for _ in range(3)]
        rates = [speed**slope * math.exp(draw.gauss(0, 0.02)) for speed in speeds]
        one = {
            "way": "stored-1",
            "planted": "0",
            "case": "toy",
            "time": f"2026-01-01T00:{number:02}:00Z",
            "runs": [[rate, rate, 100.0] for rate in rates],
            "speeds": speeds,
        }
        lines.append(json.dumps(one | fields))
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_each_session_is_judged_by_those_before_it(tmp_path: Path):
    block = live_replay.sessions_in_a_row(write(tmp_path / "o.jsonl", 14))["toy"]
    found = list(live_replay.replay("toy", block, 5, [0.0, 0.4]))
    assert {one.session for one in found} == {("toy", number) for number in range(6, 14)}
    assert len(found) == 8 * live_replay.DRAWS * 2
    slower = [str(one.judgement.verdict) for one in found if one.slower]
    assert slower == ["regressed"] * 32
    [_, _, unchanged, planted] = live_replay.table(found).splitlines()
    assert unchanged.startswith("| 0% | 8 | 32 | 0.0% |")
    assert planted.startswith("| 40% | 8 | 32 | 100.0% |")


def cells(text: str) -> list[list[str]]:
    return [row.strip("| ").split(" | ") for row in text.splitlines()[2:]]


@pytest.mark.parametrize(("differ", "low", "high"), [(0.0, 0.0, 0.15), (0.5, 0.35, 0.65)])
def test_slopes_between_sessions_and_how_they_differ(
    differ: float, low: float, high: float, tmp_path: Path
):
    path = write(tmp_path / "o.jsonl", 60, differ=differ)
    blocks = live_replay.sessions_in_a_row(path)
    [[_, count, slope, _, _]] = cells(live_replay.table_of_slopes(blocks))
    assert count == "60"
    assert 1.4 < float(slope) < 1.8
    rows = cells(live_replay.table_of_moves(blocks))
    assert sum(int(row[1]) for row in rows) == 60 * 59 // 2
    # Each two sessions have two slopes, whose mean moves them: of where the move is largest
    assert low <= float(rows[-1][-1].rstrip(" |")) <= high


def test_sessions_that_show_nothing_are_left_out(tmp_path: Path):
    for fields in (
        {"planted": "5%"},
        {"way": "lock-step"},
        {"neighbour": True},
        {"speeds": [1.0]},
        {"speeds": []},
    ):
        assert not live_replay.sessions_in_a_row(write(tmp_path / "o.jsonl", 14, **fields))
    assert not live_replay.sessions_in_a_row(write(tmp_path / "o.jsonl", 11))
