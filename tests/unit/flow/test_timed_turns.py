"""Turns by time: which count, how long they are to be, and what a log that has too few says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.flow.timed_turns import Common, seconds_of_a_turn, turns_that_count
from pytest_dlperf.measure.logs.turns import CountedTurn, Cut, WholeTurn


def cut_of(*numbers: int, records: int = 10, usual_step_s: float = 1 / 12) -> Cut:
    """A log with these turns, each of a second with twelve records, of which so many count."""
    turns = tuple(
        CountedTurn(number=number, records=records, iterations=records, said_s=0.8, lasted_s=1.0)
        for number in numbers
    )
    count = 12 * len(numbers)
    return Cut(
        turns=turns,
        whole=tuple(WholeTurn(number=number, iterations=12, seconds=1.0) for number in numbers),
        usual_step_s=usual_step_s,
        is_running=False,
        iterations=count,
        records=count,
        seconds=float(len(numbers)),
    )


def why(*cuts: Cut) -> str:
    counted = turns_that_count(cuts)
    assert isinstance(counted, str)
    return counted


def counted(*cuts: Cut) -> Common:
    common = turns_that_count(cuts)
    assert isinstance(common, Common)
    return common


def test_turns_that_both_arms_have_count():
    assert counted(cut_of(1, 2, 3, 4, 5), cut_of(2, 3, 4, 5, 6)).recorded == {2, 3, 4, 5}


def test_a_turn_with_one_record_does_not_count():
    arm = cut_of(1, 2, 3, 4, 5)
    few = replace(arm, turns=(arm.turns[0]._replace(records=1), *arm.turns[1:]))
    assert counted(arm, few).recorded == {2, 3, 4, 5}
    assert counted(few, arm).recorded == {2, 3, 4, 5}


def test_too_few_turns_in_common_are_none():
    assert why(cut_of(1, 2, 3, 4, 5), cut_of(3, 4, 5, 6)) == (
        "only 3 of its turns have records of both arms' measured iterations, and 4 are needed"
    )
    assert why(cut_of(1, 2, 3, 4, 5), replace(cut_of(1), turns=())) == (
        "its log has 12 records of measured iterations, too few for 4 turns of 7"
    )


def late(arm: Cut, *numbers: int) -> Cut:
    return replace(
        arm,
        turns=tuple(
            turn._replace(said_s=1.9) if turn.number in numbers else turn for turn in arm.turns
        ),
    )


def test_a_turn_whose_records_took_longer_than_it_lasted_does_not_count():
    arm = cut_of(*range(1, 11))
    assert counted(arm, late(arm, 3)).recorded == set(range(1, 11)) - {3}


def test_logs_that_come_late_are_not_compared_by_turns():
    arm = cut_of(*range(1, 11))
    assert "buffered output" in why(late(arm, 3, 5, 7), arm)


def test_a_turn_without_records_that_count_is_in_the_whole_window():
    arm = cut_of(*range(1, 11))
    stalls = replace(arm, turns=arm.turns[:4] + arm.turns[6:])
    common = counted(arm, stalls)
    assert common.recorded == {1, 2, 3, 4, 7, 8, 9, 10}
    assert common.within == set(range(1, 11))


@pytest.mark.parametrize(
    ("usual", "mean", "words"),
    [
        (1.06, 1.06, "the times in its log have the other arm's turns in them"),
        (1.04, 1.04, ""),
        (1.5, 1, ""),
        (0.5, 1.2, ""),
        (0.5, 0.61, ""),
        (0.5, 0.59, "the times in its log are 59% of those by the turns"),
    ],
    ids=[
        "smoothed",
        "as by the turns",
        "slower half of the time",
        "long stalls",
        "stalls",
        "half",
    ],
)
def test_times_in_a_log_are_those_by_the_turns(usual: float, mean: float, words: str):
    """A mean over many prints has a little of the other arm's turns in each of them."""
    arm, other = cut_of(*range(1, 11)), cut_of(*range(1, 11), usual_step_s=usual / 12)
    turns = tuple(turn._replace(said_s=10 * mean / 12) for turn in other.turns)
    other = replace(other, turns=turns)
    for cuts in ((arm, other), (other, arm)):
        if words:
            assert why(*cuts).startswith(words)
        else:
            assert counted(*cuts).within == set(range(1, 11))


@pytest.mark.parametrize(("record_s", "expected"), [(0.01, 0.15), (0.03, 0.15), (0.1, 0.7)])
def test_a_turn_is_as_long_as_the_records_of_the_slower_arm_need(record_s: float, expected: float):
    fast, slow = cut_of(1, 2), replace(cut_of(1, 2), seconds=24 * record_s)
    fast = replace(fast, seconds=24 * 0.001)
    assert seconds_of_a_turn(0.15, [fast, slow]) == pytest.approx(expected)
    assert seconds_of_a_turn(0.15, [slow, fast]) == pytest.approx(expected)
