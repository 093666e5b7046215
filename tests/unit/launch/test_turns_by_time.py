"""Two launches that take turns by time: whose turn it is, and what each wrote in it."""

from __future__ import annotations

import json
import random
import select
import socket
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest

from pytest_dlperf.core.run import LaunchPlan
from pytest_dlperf.launch.process.execute import InTurns, execute_in_turns
from pytest_dlperf.launch.turns import by_time
from pytest_dlperf.launch.turns.by_time import TimedReferee, TimedTurns
from pytest_dlperf.launch.turns.lines import Lines
from tests.helpers.processes import of_runs_in

pytestmark = pytest.mark.newest

HOME = str(Path(__file__).parents[3])
TURN_S = 0.1
#: Prints when it goes on, until it has done so for as long as it is told.
PROGRAM = """
import sys, time
worked_s, end_s = 0.0, float(sys.argv[1])
while worked_s < end_s:
    time.sleep(0.005)
    print(f"{time.monotonic():.6f}", flush=True)
    worked_s += 0.005
sys.exit(int(sys.argv[2]))
"""


def run(folder: Path, *arguments: tuple[float, int], timeout_s: float = 60) -> InTurns:
    """Run two launches, of which each goes on for some seconds and exits with a status."""
    launched = []
    for name, (seconds, status) in zip(("now", "before"), arguments, strict=True):
        workdir = folder / name
        launched.append(
            LaunchPlan(
                case_id="case",
                argv=(sys.executable, "-c", PROGRAM, str(seconds), str(status)),
                env={"PYTHONPATH": HOME, "DLPERF_RUN": str(workdir)},
                workdir=str(workdir),
                timeout_s=timeout_s,
            )
        )
    return execute_in_turns(
        launched,
        TimedTurns(
            TURN_S,
            lambda index: True,
            lambda index: (Path(launched[index].workdir) / "output.log").stat().st_mtime_ns,
        ),
        random.Random(0),
        on_tick=lambda folder: None,
    )


def printed(ended: InTurns, index: int) -> list[tuple[int, list[float]]]:
    """Return the number of each turn of a launch, and the times that it printed in it."""
    run = ended.runs[index]
    log = Path(run.log).read_bytes()
    turns, begin = [], 0
    for turn in run.timed_turns:
        end = turn.sizes["output.log"]
        turns.append((turn.number, [float(text) for text in log[begin:end].split()]))
        begin = end
    assert turns[0][0] == 0, "what was before it stood still for the first time"
    return turns[1:]


def test_what_a_launch_writes_in_a_turn_is_known_and_the_other_one_is_silent(tmp_path: Path):
    ended = run(tmp_path, (1.0, 0), (1.0, 0))
    assert ended.failed is None
    assert [one.exit_code for one in ended.runs] == [0, 0]
    assert ended.moving == ("", "")
    arms = [printed(ended, index) for index in range(2)]
    # All but the last of the other arm, which then went on to its end
    common = min(len(turns) for turns in arms)
    assert common >= 4
    assert [number for number, _ in arms[0][:common]] == list(range(1, common + 1))
    assert [number for number, _ in arms[1][:common]] == list(range(1, common + 1))
    # A launch may be frozen between its look at the clock and its print; where others have the
    # processor it prints less than that in a turn
    spans = sorted(
        (times[1], times[-1]) for turns in arms for _, times in turns[:common] if len(times) > 1
    )
    assert len(spans) >= 4
    for (_, end), (begin, _) in pairwise(spans):
        assert end < begin, "no turn begins before the one before has ended"
    for index in range(2):
        for turn, (_, times) in zip(ended.runs[index].timed_turns[1:], arms[index], strict=True):
            if len(times) > 1:
                assert times[-1] - times[1] <= turn.seconds
    assert of_runs_in(tmp_path) == []


@pytest.mark.parametrize("failed", [0, 1])
def test_a_launch_that_fails_ends_the_other_one(tmp_path: Path, failed: int):
    arguments = [(60.0, 0), (60.0, 0)]
    arguments[failed] = (0.2, 3)
    ended = run(tmp_path, *arguments)
    assert ended.failed == failed
    assert ended.runs[failed].exit_code == 3
    assert ended.runs[1 - failed].exit_code is None
    assert of_runs_in(tmp_path) == []


def test_the_launch_that_ends_first_lets_the_other_one_go_on_to_its_end(tmp_path: Path):
    ended = run(tmp_path, (0.2, 0), (2.0, 0))
    assert ended.failed is None
    assert ended.runs[1].exit_code == 0
    [*_, last] = printed(ended, 1)
    rest = Path(ended.runs[1].log).read_text(encoding="utf-8").split()
    after = [float(text) for text in rest if float(text) > max(last[1], default=0.0)]
    assert len(after) > 100, "more than a turn of them"


class Fake:
    """A launch that answers at once, or when it is told to."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        self.lines = Lines(here.detach())
        self.there = Lines(there.detach())
        self.heard: list[str] = []
        self.size = 0
        self.answer = "frozen"

    def go_on(self) -> None:
        """Take what the referee has sent, and answer."""
        for line in self.there.take():
            self.heard.append(line)
            if line == "freeze" and self.answer == "frozen":
                self.size += 100
                self.there.send(f"frozen {json.dumps({'output.log': self.size})}")
            elif line == "freeze":
                self.there.send(self.answer)


@pytest.fixture
def fakes() -> Iterator[list[Fake]]:
    made = [Fake(), Fake()]
    yield made
    for fake in made:
        fake.lines.close()
        fake.there.close()


def referee_of(
    fakes: list[Fake],
    turn_s: float = 0.0,
    is_warm: Callable[[int], bool] = lambda index: True,
    last_print_ns: Callable[[int], int] | None = None,
) -> TimedReferee:
    """Return the referee of launches that print all the time, unless it is said when they do."""
    prints = count()
    lines = [fake.lines for fake in fakes]
    plan = TimedTurns(turn_s, is_warm, last_print_ns or (lambda index: next(prints)))
    return TimedReferee(lines, plan, random.Random(0))


def go_on(referee: TimedReferee, fakes: list[Fake], until: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not until():
        assert time.monotonic() < deadline_s
        for fake in fakes:
            while _has(fake):
                fake.go_on()
        referee.wait(0.01)


def test_the_launch_that_is_warm_first_has_short_turns_until_the_other_one_is(fakes: list[Fake]):
    warm = {1}
    referee = referee_of(fakes, turn_s=0.2, is_warm=lambda index: index in warm)
    go_on(referee, fakes, lambda: len(referee.turns(0)) > 3 and len(referee.turns(1)) > 3)
    assert all(turn.seconds >= 0.2 for turn in referee.turns(0)[1:4])
    assert min(turn.seconds for turn in referee.turns(1)[1:4]) < 0.2
    warm.add(0)
    count = len(referee.turns(1))
    go_on(referee, fakes, lambda: len(referee.turns(1)) > count + 3)
    assert all(turn.seconds >= 0.2 for turn in referee.turns(1)[count + 1 :])


def test_a_turn_goes_on_to_the_next_print(fakes: list[Fake]):
    last = {0: 5, 1: 7}
    referee = referee_of(fakes, last_print_ns=last.__getitem__)
    go_on(referee, fakes, lambda: any("thaw" in fake.heard for fake in fakes))
    running = 0 if "thaw" in fakes[0].heard else 1
    last[1 - running] += 1
    for _ in range(20):
        referee.wait(0.01)
    assert not _has(fakes[running]), "it has not printed"
    last[running] += 1
    go_on(referee, fakes, lambda: len(referee.turns(running)) == 2)


def test_a_launch_that_prints_nothing_any_more_is_frozen_in_the_end(
    fakes: list[Fake], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(by_time, "_LONGEST_S", 0.05)
    referee = referee_of(fakes, last_print_ns=lambda index: 5)
    go_on(referee, fakes, lambda: len(referee.turns(0)) > 3 and len(referee.turns(1)) > 3)


def test_a_turn_of_a_launch_that_warms_up_is_as_long_as_its_time(fakes: list[Fake]):
    referee = referee_of(fakes, is_warm=lambda index: index == 1, last_print_ns=lambda index: 5)
    go_on(referee, fakes, lambda: len(referee.turns(0)) > 3 and len(referee.turns(1)) > 3)


def test_nobody_goes_on_before_both_stand_still(fakes: list[Fake]):
    referee = referee_of(fakes)
    fakes[0].go_on()
    referee.wait(0.1)
    assert "thaw" not in fakes[0].heard
    fakes[1].go_on()
    referee.wait(0.1)
    [running] = [fake for fake in fakes if _has(fake)]
    running.go_on()
    assert running.heard == ["freeze", "thaw"]


def test_in_each_pair_of_turns_each_launch_has_one_and_a_random_one_is_first(fakes: list[Fake]):
    referee = referee_of(fakes)
    order = []
    deadline_s = time.monotonic() + 60
    while len(order) < 40 and time.monotonic() < deadline_s:
        for index, fake in enumerate(fakes):
            while _has(fake):
                before = fake.heard.count("thaw")
                fake.go_on()
                order += [index] * (fake.heard.count("thaw") - before)
        referee.wait(0.01)
    pairs = [tuple(order[i : i + 2]) for i in range(0, 40, 2)]
    assert set(pairs) == {(0, 1), (1, 0)}
    for index in range(2):
        turns = referee.turns(index)[:18]
        assert [turn.number for turn in turns] == list(range(18))
        assert [turn.sizes["output.log"] for turn in turns] == list(range(100, 1900, 100))
        assert [turn.counts for turn in turns] == [False] + [True] * 17


def test_what_does_not_stand_still_is_named_and_its_turns_are_unknown(fakes: list[Fake]):
    fakes[1].answer = "moving pid 7 (loader) does not stop"
    referee = referee_of(fakes)
    for _ in range(20):
        for fake in fakes:
            if _has(fake):
                fake.go_on()
        referee.wait(0.01)
    assert referee.moving(0) == ""
    assert referee.moving(1) == "pid 7 (loader) does not stop"
    assert len(referee.turns(0)) > 1
    assert referee.turns(1) == ()


@pytest.mark.parametrize("answer", ["frozen", "frozen [1]", "frozen " + "[" * 9999, "0 built", ""])
def test_an_answer_that_is_none_ends_the_pair(fakes: list[Fake], answer: str):
    referee = referee_of(fakes)
    fakes[1].there.send(answer)
    referee.wait(0.1)
    assert referee.left == 1
    assert referee.fault.startswith("its turns cannot go on: ")


def test_the_launch_that_does_not_stand_still_in_time_is_awaited(fakes: list[Fake]):
    referee = referee_of(fakes)
    fakes[0].go_on()
    referee.wait(0.1)
    assert referee.awaited == 1


def test_a_launch_whose_end_is_there_lets_the_other_one_go_on(fakes: list[Fake]):
    referee = referee_of(fakes, turn_s=60)
    for fake in fakes:
        fake.go_on()
    for _ in range(3):
        referee.wait(0.1)
    first = 0 if _has(fakes[0]) else 1
    fakes[first].there.close()
    referee.wait(0.1)
    fakes[1 - first].go_on()
    assert fakes[1 - first].heard == ["freeze", "thaw"]
    assert referee.is_through(first)


def _has(fake: Fake) -> bool:
    return bool(select.select([fake.there], [], [], 0)[0])
