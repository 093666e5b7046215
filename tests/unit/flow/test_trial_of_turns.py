"""The first pair of programs whose logs are read: whether its turns and its window are enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.run import Run, TimedTurn
from pytest_dlperf.flow.lock_step import DoNotFitError, cannot_take_turns, with_counted_turns
from pytest_dlperf.flow.timed_turns import ByTime, OtherTurnsError
from tests.helpers.frozen_log import RUNNING, SECONDS, TURN_S, Program
from tests.helpers.record_files import case, write

FIRST = ByTime(TURN_S)


def subject(word: str = "{iterations}", *, iterations: int = 150, layout: str = "1n1c") -> Case:
    protocol = Protocol(iterations=iterations, warmup=50)
    command = ["python", "x.py", word]
    return replace(case(layout, command=command, log_format=SECONDS), protocol=protocol)


def run_of(folder: Path, program: Program) -> Run:
    folder.mkdir()
    log, turns = program.log()
    run = write(folder, [])
    Path(run.log).write_bytes(log)
    timed = (
        TimedTurn(t.number, {"output.log": t.end}, t.seconds, t.is_within, t.counts) for t in turns
    )
    return replace(run, timed_turns=tuple(timed))


def counted(
    folder: Path,
    subject: Case,
    *programs: Program,
    by_time: ByTime = FIRST,
    moving: str = "",
    number: int = 1,
) -> list[set[int]]:
    """Return the turns of each arm that count."""
    arms = {str(i): run_of(folder / str(i), program) for i, program in enumerate(programs)}
    runs = with_counted_turns(subject, arms, {"0": "", "1": moving}, by_time, number)
    return [{t.number for t in run.timed_turns if t.counts} for run in runs.values()]


def test_turns_in_which_both_arms_have_measured_iterations_count(tmp_path: Path):
    subject_ = subject("600", iterations=600)
    fast, slow = counted(
        tmp_path, subject_, Program(iterations=650), Program(step_s=0.012, iterations=650)
    )
    assert fast == slow
    # Iteration 51 of the slower one ends in turn 7, and iteration 600 of the faster one in turn 54
    assert fast == set(range(8, 54))


def trial(folder: Path, subject: Case, *programs: Program) -> OtherTurnsError:
    with pytest.raises(OtherTurnsError) as caught:
        counted(folder, subject, *programs)
    assert caught.value.by_time.is_tried
    return caught.value


def test_launches_alternate_where_measured_records_come_after_the_turns(tmp_path: Path):
    runs = {str(side): run_of(tmp_path / str(side), Program(iterations=150)) for side in range(2)}
    # All that was printed is in the last flush, with no time of its own
    late = {
        side: replace(
            run,
            timed_turns=tuple(turn._replace(sizes={"output.log": 0}) for turn in run.timed_turns),
        )
        for side, run in runs.items()
    }
    with pytest.raises(DoNotFitError, match="all at once"):
        with_counted_turns(subject(), late, {"0": "", "1": ""}, FIRST, 1)


def test_turns_with_too_few_records_become_longer(tmp_path: Path):
    program = Program(step_s=0.009, every=10, iterations=2050)
    other = trial(tmp_path, subject("2000", iterations=2000), program, program)
    assert other.by_time.turn_s == pytest.approx(7 * 0.09, rel=0.1)
    assert other.case.protocol.window == (50, 2000)


def test_a_window_with_room_for_too_few_turns_becomes_longer(tmp_path: Path):
    program = Program(iterations=150)
    other = trial(tmp_path, subject(), program, program)
    assert other.by_time.turn_s == TURN_S
    # Five seconds
    assert other.case.protocol.iterations == pytest.approx(50 + 5 / 0.009, rel=0.15)
    assert other.case.protocol.lengthened_from == 150


def test_a_log_with_too_few_records_for_any_turns_is_none(tmp_path: Path):
    program = Program(every=50, iterations=300)
    with pytest.raises(DoNotFitError, match="its log has 3 records of measured iterations"):
        counted(tmp_path, subject("300", iterations=200), program, program)


def test_a_pair_after_the_trial_is_none(tmp_path: Path):
    program, tried = Program(iterations=150), ByTime(TURN_S, is_tried=True)
    fast, slow = counted(tmp_path, subject(), program, program, by_time=tried)
    assert fast == slow
    assert len(fast) >= 4


def test_a_later_pair_on_a_slower_machine_is_launched_again_with_longer_turns(tmp_path: Path):
    slower, tried = Program(step_s=0.035, iterations=650), ByTime(TURN_S, is_tried=True)
    subject_ = subject(iterations=600)
    with pytest.raises(OtherTurnsError) as caught:
        counted(tmp_path, subject_, slower, slower, by_time=tried)
    assert caught.value.by_time.turn_s == pytest.approx(7 * 0.035, rel=0.1)
    assert caught.value.case is subject_


def test_a_later_pair_on_a_faster_machine_has_the_window_of_those_before(tmp_path: Path):
    program = Program(iterations=150)
    fast, slow = counted(tmp_path, subject(), program, program, number=2)
    assert fast == slow
    assert len(fast) >= 4


def test_turns_that_would_freeze_an_arm_for_too_long_are_none(tmp_path: Path):
    program = Program(step_s=0.06, every=10, iterations=1000)
    with pytest.raises(
        DoNotFitError, match=r"would take 4\.\d s, and an arm that is frozen for two"
    ):
        counted(tmp_path, subject(iterations=900), program, program)


def test_a_log_of_running_means_is_not_compared_by_turns(tmp_path: Path):
    program = Program(iterations=650, is_running=True)
    running = replace(subject(iterations=600), log_format=RUNNING)
    with pytest.raises(DoNotFitError, match="its log prints running means"):
        counted(tmp_path, running, program, program)


@pytest.mark.parametrize(
    ("layout", "log_format", "words"),
    [
        ("1n1c", SECONDS, ""),
        ("1n1c", "paddleclas", "its log prints running means"),
        ("1n1c", RUNNING, "its log prints running means"),
        ("1n1g", SECONDS, "kernels that are queued go on while the host is frozen"),
        ("1n1g", "", ""),
    ],
)
def test_which_logs_alternate_from_the_first_pair_on(layout: str, log_format: Any, words: str):
    program = replace(subject(layout=layout), log_format=log_format)
    why = cannot_take_turns(program)
    assert words in why
    assert bool(words) == bool(why)


def test_what_cannot_be_frozen_is_no_pair_in_turns(tmp_path: Path):
    program = Program(iterations=650)
    with pytest.raises(DoNotFitError, match=r"it cannot be frozen \(pid 7 does not stop\)"):
        counted(tmp_path, subject(), program, program, moving="pid 7 does not stop")


def test_a_program_that_ends_at_once_has_no_turns(tmp_path: Path):
    program = Program(iterations=20)
    with pytest.raises(DoNotFitError, match=r"it ends within 4 turns of 0\.1 s"):
        counted(tmp_path, subject(), program, program)


def test_a_log_that_cannot_be_read_is_read_whole_for_its_error(tmp_path: Path):
    arms = {side: run_of(tmp_path / side, Program(iterations=150)) for side in "ab"}
    Path(arms["b"].log).write_text("it died\n", encoding="utf-8")
    runs = with_counted_turns(subject(), arms, {}, FIRST, 1)
    assert [run.timed_turns for run in runs.values()] == [(), ()]
