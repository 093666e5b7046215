"""Logs of programs that were frozen between their turns: no time has the other arm's in it."""

from __future__ import annotations

import io

import pytest

from pytest_dlperf.core.log_pattern import LogPattern
from pytest_dlperf.measure.logs.extract import LogResult, extract_stream
from pytest_dlperf.measure.logs.parsed_log import ParseOptions
from pytest_dlperf.measure.logs.turns import Cut
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern
from tests.helpers.frozen_log import RUNNING, SECONDS, TURN_S, Program

STEP_S = Program.step_s


def read(program: Program, declared: LogPattern = SECONDS) -> LogResult:
    log, turns = program.log()
    options = ParseOptions(
        fmt=format_of_pattern(declared), skip=20, batch_size_per_device=8, world_size=1
    )
    return extract_stream(io.BytesIO(log), "run.log", options, log_turns=turns)


def cut(program: Program, declared: LogPattern = SECONDS) -> tuple[LogResult, Cut]:
    result = read(program, declared)
    assert result.cut is not None
    return result, result.cut


def seconds(result: LogResult) -> list[float]:
    return [span.seconds / (span.last_step - span.first_step + 1) for span in result.spans]


def test_a_log_that_is_read_whole_has_the_other_arms_turns_in_it():
    log, _ = Program().log()
    options = ParseOptions(
        fmt=format_of_pattern(SECONDS), skip=20, batch_size_per_device=8, world_size=1
    )
    whole = extract_stream(io.BytesIO(log), "run.log", options)
    assert whole.throughput is not None
    assert whole.throughput < 0.6 * 8 / STEP_S
    assert whole.cut is None


@pytest.mark.parametrize(
    "program",
    [
        Program(),
        Program(caught=(33, 61, 90)),
        Program(torn=(33, 61, 90)),
        Program(caught=(34, 35, 36, 61)),
        Program(torn=(34, 35, 36, 61)),
        Program(idle=(4, 5, 9)),
        Program(step_s=0.0009, iterations=1500, every=10),
        Program(step_s=0.001),
    ],
    ids=["", "caught", "torn", "caught again", "torn again", "idle", "every tenth", "short"],
)
def test_only_what_is_within_one_turn_counts(program: Program):
    result, how = cut(program)
    assert result.throughput == pytest.approx(8 / program.step_s, rel=1e-5)
    assert seconds(result) == pytest.approx([program.step_s] * len(result.spans), rel=1e-5)
    assert how.usual_step_s == pytest.approx(program.step_s, rel=1e-5)
    assert how.left_out + sum(turn.iterations for turn in how.turns) == how.iterations
    assert all(turn.said_s <= turn.lasted_s <= TURN_S + 1e-9 for turn in how.turns)


def test_two_records_of_each_turn_are_left_out():
    _, how = cut(Program(step_s=0.01 - 1e-6))
    # Iterations 21 to 150, of which ten are a turn
    assert how.iterations == how.records == 130
    assert {turn.iterations for turn in how.turns[1:-1]} == {8}
    assert how.record_s == how.step_s == pytest.approx(0.01, rel=0.1)


def test_turns_whose_iterations_are_all_measured_are_whole():
    _, how = cut(Program(step_s=0.01 - 1e-6, idle=(8, 9)))
    # Iteration 21 ends in the third turn, and 150 in the seventeenth
    assert [turn.number for turn in how.whole] == list(range(4, 17))
    by_number = {turn.number: turn.iterations for turn in how.whole}
    assert by_number[9] == 0, "it counts though it has no record"
    assert set(by_number.values()) <= {0, 1, 9, 10}
    assert all(turn.seconds == pytest.approx(TURN_S) for turn in how.whole)


def test_a_turn_that_does_not_count_is_left_out():
    log, turns = Program().log()
    options = ParseOptions(
        fmt=format_of_pattern(SECONDS), skip=20, batch_size_per_device=8, world_size=1
    )
    some = [turn._replace(counts=turn.number % 2 == 0) for turn in turns]
    result = extract_stream(io.BytesIO(log), "run.log", options, log_turns=some)
    assert result.cut is not None
    assert {turn.number for turn in result.cut.turns} == {2, 4, 6, 8, 10, 12}


def test_what_follows_the_last_turn_does_not_count():
    log, turns = Program().log()
    options = ParseOptions(
        fmt=format_of_pattern(SECONDS), skip=20, batch_size_per_device=8, world_size=1
    )
    result = extract_stream(io.BytesIO(log), "run.log", options, log_turns=turns[:8])
    assert result.cut is not None
    assert [turn.number for turn in result.cut.turns] == [2, 3, 4, 5, 6, 7]


def test_a_running_mean_is_undone_before_it_is_cut():
    result, _ = cut(Program(is_running=True), RUNNING)
    assert seconds(result) == pytest.approx([STEP_S] * len(result.spans), rel=1e-3)
    assert result.estimates is not None
    assert result.estimates.mean_of_rates == pytest.approx(8 / STEP_S, rel=1e-3)


def test_records_of_a_buffered_log_say_that_they_took_longer_than_their_turn():
    _, how = cut(Program(buffer=1000, iterations=400))
    assert any(turn.said_s > 1.2 * turn.lasted_s for turn in how.turns)


def test_means_over_several_prints_say_that_they_took_longer_than_their_turn():
    _, how = cut(Program(smoothed=8))
    assert how.usual_step_s > 1.2 * STEP_S
    assert how.mean_step_s > 1.2 * STEP_S


def test_a_turn_with_too_few_records_has_none_that_count():
    result, how = cut(Program(every=10))
    assert result.throughput is None
    assert how.turns == ()
    assert how.records == 13
    assert how.record_s == pytest.approx(0.09, rel=0.2)
    assert how.step_s == pytest.approx(0.009, rel=0.2)


def test_a_log_without_a_measured_iteration_is_not_cut():
    result = read(Program(iterations=15))
    assert result.throughput is None
    assert result.cut is None


def test_a_resumed_run_is_counted_from_its_first_print():
    log, turns = Program().log()
    resumed = log.replace(b"step ", b"step 1000")
    longer, sizes = len(b"1000"), []
    for turn in turns:
        lines = log[: turn.end].count(b"step ")
        sizes.append(turn._replace(end=turn.end + longer * lines))
    options = ParseOptions(
        fmt=format_of_pattern(SECONDS), skip=20, batch_size_per_device=8, world_size=1
    )
    result = extract_stream(io.BytesIO(resumed), "run.log", options, log_turns=sizes)
    assert result.throughput == pytest.approx(8 / STEP_S, rel=1e-5)
