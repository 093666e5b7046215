"""What the study of explanations counts, from tries made by hand."""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import explain_study
from explained import said

pytestmark = pytest.mark.once


def test_the_stopwatch_is_read_in_the_steps_whose_profile_is_kept(tmp_path: Path):
    before = explain_study._ITERATIONS + 1
    # The window and the step that says how long one is; eight that are profiled; three for memory
    lengths = [9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.5]
    lines = ["99 99"] * before + [f"{length} {10 * length}" for length in lengths] + ["77 77"] * 3
    (tmp_path / "stopwatch.0").write_text("\n".join(lines) + "\n", encoding="utf-8")
    # Neither the shortest two nor the longest two
    assert explain_study._planted_s(tmp_path, 0, 3) == pytest.approx(10 * (2 + 3 + 4 + 5) / 4)


def line(kind: str, part_ms: float, *, named: bool, operators: int = 0) -> dict[str, Any]:
    part = said.PART.get(kind, "compute")
    return {"kind": kind, "parts": {part: (part_ms, named)}, "planted_ms": 10.0,
            "operators": [["", "aten::mm", part, 1.0, 1]] * operators}  # fmt: skip


@pytest.mark.parametrize(
    ("part_ms", "named", "hit"), [(8.1, True, True), (12.1, True, False), (10.0, False, False)]
)
def test_a_hit_is_named_and_within_a_fifth(part_ms: float, named: bool, hit: bool):
    assert said.is_hit(line("sleep", part_ms, named=named)) is hit


def test_of_an_unchanged_try_neither_a_part_nor_an_operator_is_named():
    assert said.names_nothing(line("nothing", 3.0, named=False))
    assert not said.names_nothing(line("nothing", 3.0, named=True))
    assert not said.names_nothing(line("nothing", 3.0, named=False, operators=1))


def test_another_start_makes_the_tries_that_are_left(tmp_path: Path):
    file = tmp_path / "tries.jsonl.gz"
    for kind in ("sleep", "nothing", "sleep"):
        with gzip.open(file, "at", encoding="utf-8") as lines:
            lines.write(json.dumps({"kind": kind}) + "\n")
    found = explain_study.read(file)
    wanted = argparse.Namespace(tries=3, unchanged=2, kinds="sleep,nothing,slow-data")
    left = explain_study._left(wanted, found)
    assert sorted(left) == ["nothing", "sleep", "slow-data", "slow-data", "slow-data"]
    assert explain_study.read(tmp_path / "none.gz") == []
