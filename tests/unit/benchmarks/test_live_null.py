"""The table of live verdicts, from outcomes made by hand."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

import live_null

pytestmark = pytest.mark.once


def outcome(verdict: str, way: str = "lock-step", **fields: Any) -> dict[str, Any]:
    return {
        "way": way,
        "planted": "0",
        "case": "case",
        "elapsed_s": 60.0,
        "verdict": verdict,
        "runs": [],
        "before": [],
    } | fields


def test_the_share_of_alarms_has_its_interval():
    found = [outcome("passed")] * 57 + [outcome("regressed")] * 3
    [_, _, row] = live_null.table(found).splitlines()
    # R's binom.test(3, 60) has 1.04 to 13.9 %.
    assert "| lock-step |  | 0 % | 60 | 5 % | 1 to 14 % | 57 passed | 60 s | 60 s |" in row


def test_the_changes_of_unchanged_cases_have_a_size():
    known = {"change": math.expm1(0.03)}
    found = [outcome("passed", **known), outcome("error", change=None)]
    [_, _, row] = live_null.table(found).splitlines()
    assert row.endswith("| 3.0 % |  |")
    assert live_null.table([outcome("passed", planted="5%", **known)]).endswith("|  |  |  |")


def test_pairs_of_turns_are_compared_one_by_one():
    before = [[1.0, 1.0, 1.0, 2.0, 4.0, 1.0]]
    runs = [[9.0, 9.0, 9.0, 2.2, 4.4, 1.1]]
    assert live_null.differences(runs, before) == pytest.approx([-math.log(1.1)])
    assert live_null.differences([[1.0, 2.0, 1.0]], [[1.0, 1.0, 1.0]]) == [math.log(2)]


def test_what_varies_is_pooled_within_outcomes():
    runs = [[1.0, math.exp(value), 1.0] for value in (0.0, 0.2)]
    of_pairs = outcome("passed", runs=runs, before=[[1.0, 1.0, 1.0]] * 2)
    of_runs = outcome("passed", runs=runs)
    for one in (of_pairs, of_runs):
        assert live_null.spread([one, one]) == pytest.approx(math.sqrt(0.02))
    assert live_null.spread([outcome("error")]) is None


def test_the_mean_of_unchanged_pairs_is_a_bias() -> None:
    before = [[1.0, 1.0, 1.0]] * 3
    runs = [[1.0, math.exp(value), 1.0] for value in (0.01, 0.02, 0.03)]
    # t of 0.975 with 2 degrees of freedom, 4.303, times 1 % / sqrt(3)
    told = "-0.48 to +4.48 % (3 pairs)"
    assert live_null.mean_of_pairs([outcome("passed", runs=runs, before=before)]) == told
    assert live_null.mean_of_pairs([outcome("passed", runs=runs)]) == ""


@pytest.mark.skipif(not (live_null.ROOT / ".git").exists(), reason="these files are no clone")
def test_the_code_of_now_has_a_comment_more_than_that_which_is_stored(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    commits = live_null.commits_in(tree)
    assert live_null.commits_in(tree) == commits
    live_null.check_out(tree, commits.stored)
    assert "# One comment more" not in (tree / "perf_tests/__init__.py").read_text("utf-8")
    live_null.check_out(tree, commits.now)
    assert "# One comment more" in (tree / "perf_tests/__init__.py").read_text("utf-8")


def write_baselines(folder: Path, *counts: int) -> None:
    """Write a baseline for each count of sessions, and noise, as the plugin does."""
    (folder / "2x-cpu").mkdir(parents=True, exist_ok=True)
    for number, count in enumerate(counts):
        text = json.dumps({"sessions": [{}] * count})
        (folder / f"2x-cpu/{number}.json").write_text(text, encoding="utf-8")
    (folder / "2x-cpu/noise.json").write_text('{"runs": 4}', encoding="utf-8")


def test_five_sessions_are_stored_through_a_deck_and_judge_the_next(tmp_path: Path):
    kinds = [live_null.Kind("stored-5", "0"), live_null.Kind("lock-step", "0")] * 4
    five, later = tmp_path / "stored-5", tmp_path / "stored-5.later"
    draw = random.Random(1)
    deck = live_null.next_deck(kinds, five, later, draw)
    assert deck.count(None) == 5
    assert {kind.way for kind in deck if kind} == {"lock-step"}
    write_baselines(later, 3, 4)  # as an earlier start left it
    assert live_null.next_deck(kinds, five, later, draw).count(None) == 2
    write_baselines(later, 5, 5)
    deck = live_null.next_deck(kinds, five, later, draw)
    assert live_null.count_stored(five) == 5
    assert deck.count(None) == 5
    assert sorted(filter(None, deck)) == sorted(kinds)
    assert deck != sorted(deck, key=str), "in random order"


def test_outcomes_beside_a_neighbour_have_a_row_of_their_own():
    found = [outcome("passed"), outcome("passed", neighbour=True)]
    [_, _, alone, beside] = live_null.table(found).splitlines()
    assert "| lock-step |  |" in alone
    assert "| lock-step | bursts |" in beside
