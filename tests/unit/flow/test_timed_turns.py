"""Turns by time: which count, how long they are to be, and what a log that has too few says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_dlperf.flow.timed_turns import seconds_of_a_turn, turns_that_count
from pytest_dlperf.measure.logs.turns import CountedTurn, Cut


def cut_of(*numbers: int, records: int = 10, said: float = 0.8) -> Cut:
    """A log with these turns, each of a second with so many records of a tenth."""
    turns = tuple(
        CountedTurn(number=number, records=records, iterations=records, said_s=said, lasted_s=1.0)
        for number in numbers
    )
    count = 12 * len(numbers)
    return Cut(turns=turns, iterations=count, records=count, seconds=float(len(numbers)))


def why(*cuts: Cut) -> str:
    counted = turns_that_count(cuts)
    assert isinstance(counted, str)
    return counted


def test_turns_that_both_arms_have_count():
    assert turns_that_count([cut_of(1, 2, 3, 4, 5), cut_of(2, 3, 4, 5, 6)]) == {2, 3, 4, 5}


def test_a_turn_with_one_record_does_not_count():
    arm = cut_of(1, 2, 3, 4, 5)
    few = replace(arm, turns=(arm.turns[0]._replace(records=1), *arm.turns[1:]))
    assert turns_that_count([arm, few]) == {2, 3, 4, 5}
    assert turns_that_count([few, arm]) == {2, 3, 4, 5}


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
    assert turns_that_count([arm, late(arm, 3)]) == set(range(1, 11)) - {3}


def test_logs_that_come_late_are_not_compared_by_turns():
    arm = cut_of(*range(1, 11))
    assert "buffered output" in why(late(arm, 3, 5, 7), arm)
    # As of a mean over many prints, which has a little of the other arm's turn in each of them
    text = why(arm, cut_of(*range(1, 11), said=1.1))
    assert text.startswith("the times in its log have the other arm's turns in them")
    assert turns_that_count([arm, cut_of(*range(1, 11), said=0.9)]) == set(range(1, 11))


def test_times_that_are_far_below_the_turns_show_nothing():
    text = why(cut_of(*range(1, 11), said=0.3), cut_of(*range(1, 11)))
    assert text.startswith("the times in its log are 36% of what the turns lasted")


@pytest.mark.parametrize(("record_s", "expected"), [(0.01, 0.15), (0.03, 0.15), (0.1, 0.7)])
def test_a_turn_is_as_long_as_the_records_of_the_slower_arm_need(record_s: float, expected: float):
    fast, slow = cut_of(1, 2), replace(cut_of(1, 2), seconds=24 * record_s)
    fast = replace(fast, seconds=24 * 0.001)
    assert seconds_of_a_turn(0.15, [fast, slow]) == pytest.approx(expected)
    assert seconds_of_a_turn(0.15, [slow, fast]) == pytest.approx(expected)
