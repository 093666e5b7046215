"""The replay of recorded live sessions, on files made by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import live_replay


def write(path: Path, count: int, **fields: Any) -> Path:
    """Write unchanged sessions of one case: its rates follow the machine's speed 1.6 times."""
    draw = random.Random(1)
    lines = []
    for number in range(count):
        speeds = [200 * 2 ** draw.gauss(0, 0.05) for _ in range(3)]
        rates = [speed**1.6 * 2 ** draw.gauss(0, 0.02) for speed in speeds]
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
    [block] = live_replay.sessions_in_a_row(write(tmp_path / "o.jsonl", 14))
    found = list(live_replay.replay("toy", block, 5, [0.0, 0.4]))
    assert {one.session for one in found} == {("toy", number) for number in range(5, 14)}
    assert len(found) == 9 * live_replay.DRAWS * 2
    slower = [str(one.judgement.verdict) for one in found if one.slower]
    assert slower == ["regressed"] * 36
    [_, _, unchanged, planted] = live_replay.table(found).splitlines()
    assert unchanged.startswith("| 0% | 9 | 36 | 0.0% |")
    assert planted.startswith("| 40% | 9 | 36 | 100.0% |")


def test_the_speed_is_taken_out_of_what_sessions_are_off_by(tmp_path: Path):
    [block] = live_replay.sessions_in_a_row(write(tmp_path / "o.jsonl", 30))
    found = list(live_replay.replay("toy", block, 1, [0.0]))
    rows = [row.strip("| ").split(" | ") for row in live_replay.table_of_moves(found).splitlines()]
    assert len(rows) > 4
    for row in rows[2:]:
        assert 1.3 < float(row[2]) < 1.9
        assert float(row[3].rstrip("%")) < 4
    # What moved most was off most, as measured
    off = [float(row[4].rstrip("%")) for row in rows[2:]]
    assert off[0] > 6
    assert off[0] > 2 * min(off)


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
