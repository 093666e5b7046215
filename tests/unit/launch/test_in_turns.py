"""Two launches in lock-step: whose turn it is, and what is left when one of them fails."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_dlperf.core.run import EndReason, LaunchPlan
from pytest_dlperf.core.wire import iterations_of_a_turn, rank_file
from pytest_dlperf.launch.process.execute import InTurns, execute_in_turns
from pytest_dlperf.launch.turns.referee import TurnsPlan

pytestmark = pytest.mark.newest

HOME = str(Path(__file__).parents[3])
WINDOW = TurnsPlan(ranks=2, iterations=20)
#: Two ranks, each a thread, whose turns are written down with the times at which they were.
PROGRAM = """
import json, os, sys, threading, time
from pathlib import Path
from pytest_dlperf.worker.turns import InTurns

folder, fault = Path(sys.argv[1]), sys.argv[2]
written = []

def train(rank):
    if fault == "unmarked" and rank:
        return time.sleep(600)
    turns = InTurns(folder, rank, window_begin=5)
    if fault == "build" and rank:
        os._exit(3)
    if fault.startswith("reports "):
        (folder / "turns").write_bytes(os.fsencode(fault[len("reports "):] + "\\n"))
        return time.sleep(600)
    turns.await_warm_up()
    for number, turn in enumerate(turns.split(range(5, 25), typical_s=0.01)):
        begin = time.monotonic()
        time.sleep(0.002 * len(turn))
        if number == 2 and rank and fault == "dies":
            os._exit(3)
        if number == 2 and rank and fault == "hangs":
            time.sleep(600)
        if number == 2 and rank and fault == "is slow":
            time.sleep(4.5)
        written.append([begin, time.monotonic(), list(turn)])

ranks = [threading.Thread(target=train, args=(rank,)) for rank in range(2)]
[rank.start() for rank in ranks]
[rank.join() for rank in ranks]
(folder / "turns.json").write_text(json.dumps(written))
time.sleep(0.3)
(folder / "ended").write_text(str(time.monotonic()))
"""

#: A process beside the ranks, which writes down when it worked.
BESIDE = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", '''
import sys, time
with open(sys.argv[1] + "/ticks", "w", buffering=1) as file:
    while True:
        print(time.monotonic(), file=file)
        time.sleep(0.001)
''', sys.argv[1]], start_new_session=True)
"""


def plans(folder: Path, *faults: str, timeout_s: float = 60) -> list[LaunchPlan]:
    found = []
    for name, fault in zip(("now", "before"), faults, strict=True):
        workdir = folder / name
        found.append(
            LaunchPlan(
                case_id="case",
                argv=(sys.executable, "-c", PROGRAM, str(workdir), fault),
                env={"PYTHONPATH": HOME, "DLPERF_RUN": str(workdir)},
                workdir=str(workdir),
                timeout_s=timeout_s,
            )
        )
    return found


def run(launched: list[LaunchPlan], seed: int = 0) -> InTurns:
    return execute_in_turns(launched, WINDOW, random.Random(seed), on_tick=lambda folder: None)


def living(folder: Path) -> list[int]:
    """Return the processes of the launches in ``folder``."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"DLPERF_RUN={folder}".encode() in environment:
            found.append(int(entry.name))
    return found


def fifos(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_fifo()]


def test_turns_of_two_launches_alternate_and_never_overlap(tmp_path: Path):
    ended = run(plans(tmp_path, "", ""))
    assert ended.failed is None
    assert [one.exit_code for one in ended.runs] == [0, 0]
    turns = {}
    for name in ("now", "before"):
        written = json.loads((tmp_path / name / "turns.json").read_text())
        # Both ranks of a launch together, each with all iterations of its window.
        by_first = sorted(written, key=lambda turn: (turn[2][0], turn[0]))
        assert [turn[2][0] for turn in by_first] == sorted(list(range(5, 25, 3)) * 2)
        assert sum(len(turn[2]) for turn in written) == 2 * WINDOW.iterations
        turns[name] = written
    for begin, end, _ in turns["now"]:
        assert all(end <= b or e <= begin for b, e, _ in turns["before"])
    # In each pair of turns a random launch is first.
    begins = {name: sorted(begin for begin, _, _ in turns[name])[::2] for name in turns}
    is_first = [now < before for now, before in zip(*begins.values(), strict=True)]
    assert set(is_first) == {True, False}
    # What follows the window is done by one after the other.
    first, second = ((tmp_path / name / "ended").stat().st_mtime for name in ("now", "before"))
    assert second - first >= 0.3
    assert fifos(tmp_path) == []


@pytest.mark.parametrize(("faults", "failed"), [(("dies", ""), 0), (("", "dies"), 1)])
def test_a_launch_that_dies_in_its_turn_ends_the_other(
    tmp_path: Path, faults: tuple[str, str], failed: int
):
    ended = run(plans(tmp_path, *faults))
    assert ended.failed == failed
    assert ended.runs[failed].exit_code == 3
    assert ended.runs[1 - failed].end.reason is EndReason.PYTEST_GONE
    assert living(tmp_path) == []
    assert fifos(tmp_path) == []


def test_a_launch_that_dies_before_its_first_turn_ends_the_other(tmp_path: Path):
    ended = run(plans(tmp_path, "", "build"))
    assert ended.failed == 1
    assert living(tmp_path) == []


@pytest.mark.parametrize(
    ("faults", "failed"),
    # Each waits for a timeout.
    [(("hangs", ""), 0), pytest.param(("", "hangs"), 1, marks=pytest.mark.nightly)],
)
def test_the_launch_that_hangs_is_named_and_not_the_one_that_waits_for_it(
    tmp_path: Path, faults: tuple[str, str], failed: int
):
    ended = run(plans(tmp_path, *faults, timeout_s=10))
    assert ended.failed == failed
    assert living(tmp_path) == []


def test_in_a_long_turn_the_libraries_of_the_other_launch_send_their_heartbeats(tmp_path: Path):
    launched = plans(tmp_path, "is slow", "")
    launched[1] = replace(
        launched[1], argv=(*launched[1].argv[:2], BESIDE + PROGRAM, *launched[1].argv[3:])
    )
    ended = run(launched)
    assert ended.failed is None
    assert ended.moving == ("", "")
    written = json.loads((tmp_path / "now" / "turns.json").read_text())
    begin, end = max((turn[:2] for turn in written), key=lambda turn: turn[1] - turn[0])
    lines = (tmp_path / "before" / "ticks").read_text().splitlines()[:-1]
    assert any(begin < float(line) < end for line in lines)


def test_a_launch_whose_folder_can_have_no_fifo_says_so(tmp_path: Path):
    launched = plans(tmp_path, "", "")
    in_the_way = tmp_path / "now" / rank_file(1, "turn")
    in_the_way.parent.mkdir()
    in_the_way.write_text("")
    ended = run(launched)
    assert ended.failed == 0
    assert ended.runs[0].end.reason is EndReason.NO_TURNS
    assert ended.runs[0].end.message == f"{in_the_way}: File exists"
    assert living(tmp_path) == []


GARBLED = [
    "2 built",
    "-1 done",
    "0 ready nan",
    "0",
    "built 0",
    "x built",
    'frozen {"a": "b"}',
    "\udcff",
]


@pytest.mark.parametrize("line", GARBLED)
def test_a_report_that_is_none_ends_the_pair(tmp_path: Path, line: str):
    ended = run(plans(tmp_path, "", f"reports {line}"))
    assert ended.failed == 1
    assert ended.fault.startswith("its turns cannot go on: ")
    assert living(tmp_path) == []
    assert fifos(tmp_path) == []


def test_a_launcher_that_is_not_there_leaves_no_fifo(tmp_path: Path):
    launched = plans(tmp_path, "", "")
    launched[0] = replace(launched[0], argv=("/no/such/program",))
    ended = run(launched)
    assert ended.failed == 0
    assert ended.runs[0].end.reason is EndReason.NOT_STARTED
    assert fifos(tmp_path) == []


def test_an_interrupt_ends_both(tmp_path: Path):
    def interrupt(folder: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        execute_in_turns(plans(tmp_path, "hangs", ""), WINDOW, random.Random(0), on_tick=interrupt)
    assert living(tmp_path) == []
    assert fifos(tmp_path) == []


def test_a_killed_pytest_leaves_neither(tmp_path: Path):
    script = f"""
    import random, sys
    from pathlib import Path
    sys.path.insert(0, {HOME!r})
    from tests.unit.launch.test_in_turns import plans, run
    run(plans(Path({str(tmp_path)!r}), "hangs", ""))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, "PYTHONPATH": HOME},
    )
    deadline_s = time.monotonic() + 60
    while len(living(tmp_path)) < 2:
        assert time.monotonic() < deadline_s, "the launches did not start"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while living(tmp_path):
        assert time.monotonic() < deadline_s, "processes were left"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("iterations", "step_s", "expected"),
    [
        (100, 0.001, 13),  # eight turns, as half a second is longer than the window
        (100, 0.1, 5),
        (100, 1.0, 3),  # so that the first iteration of a turn is the smaller part
        (2, 1.0, 2),
        (100, 0.0, 13),
    ],
)
def test_a_turn_lasts_about_half_a_second(iterations: int, step_s: float, expected: int):
    assert iterations_of_a_turn(iterations, step_s) == expected


def test_a_rank_that_marks_no_step_ends_the_pair(tmp_path: Path):
    plan = WINDOW._replace(marks_within_s=0.5)
    ended = execute_in_turns(
        plans(tmp_path, "unmarked", ""), plan, random.Random(0), on_tick=lambda folder: None
    )
    assert ended.failed == 0
    assert "rank 0 has marked a step" in ended.fault
    assert "rank 1 had not" in ended.fault
    assert living(tmp_path) == []


def test_the_arm_that_waits_is_frozen(tmp_path: Path):
    """Also a process beside the ranks, in a session of its own, that works all the time."""
    launched = [
        replace(plan, argv=(sys.executable, "-c", BESIDE + PROGRAM, *plan.argv[3:]))
        for plan in plans(tmp_path, "", "")
    ]
    ended = run(launched)
    assert ended.failed is None
    assert ended.moving == ("", "")
    for name, other in (("now", "before"), ("before", "now")):
        ticks = [float(line) for line in (tmp_path / name / "ticks").read_text().splitlines()[:-1]]
        turns = json.loads((tmp_path / other / "turns.json").read_text())
        assert len(ticks) > 10
        assert not [t for t in ticks for begin, end, _ in turns if begin < t < end]
