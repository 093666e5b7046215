"""Phases of a program between its steps: what they take is in no step."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_dlperf.core.wire import MarkSettings
from pytest_dlperf.worker.marks import Marks
from tests.helpers.marked_program import program, settings
from tests.helpers.simulated_gpu import records


class Clock:
    """The host's clock, which stands still until a program lets it go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        monkeypatch.setattr("time.perf_counter", lambda: self.now_s)


def without_canary(folder: Path) -> MarkSettings:
    """The canary of the host waits for the clock."""
    return settings(folder, iterations=12, warmup=6)._replace(on_gpu=True)


def phased(marks: Marks, clock: Clock, number: int) -> None:
    """Train one step of 4 s, of which 1 s waits; phases of a minute are before some of them."""
    if number == 5:
        with_phase(marks, clock, "before")
    if number == 8:
        clock.now_s += 0.25
        with_phase(marks, clock, "evaluation")
        clock.now_s += 0.5
        with_phase(marks, clock, "checkpoint")
        clock.now_s += 0.25
    else:
        clock.now_s += 1
    with marks.step(None):
        clock.now_s += 3
        assert marks.begin_phase("within") is None


def with_phase(marks: Marks, clock: Clock, name: str) -> None:
    phase = marks.begin_phase(name)
    assert phase is not None
    clock.now_s += 30
    assert marks.begin_phase("deeper") is None, "the outer one has its time"
    clock.now_s += 30
    marks.end_phase(phase)


def test_a_phase_between_steps_is_in_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    clock = Clock(monkeypatch)
    marks = Marks(without_canary(tmp_path))
    for number in range(12):
        phased(marks, clock, number)
    found = records(tmp_path)
    assert {(s["seconds"], s["data_wait_seconds"]) for s in found["span"][1:]} == {(4.0, 1.0)}
    [window] = found["window"]
    assert window["left_out"] == {"evaluation": 60, "checkpoint": 60}, "without those before it"
    assert window["left_out_cpu_seconds"] >= 0
    assert window["seconds"] == 6 * 4 + 120


def test_a_phase_that_holds_steps_takes_nothing_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    clock = Clock(monkeypatch)
    marks = Marks(without_canary(tmp_path))
    for number in range(12):
        outer = marks.begin_phase("epoch") if number in {3, 8} else None
        with marks.step(None):
            clock.now_s += 3
        if number == 9:
            with_phase(marks, clock, "evaluation")
        if outer is not None:
            marks.end_phase(outer)
        clock.now_s += 1
    found = records(tmp_path)
    assert {span["seconds"] for span in found["span"][1:]} == {4.0}
    assert found["window"][0]["left_out"] == {"evaluation": 60}


def test_the_phase_of_another_thread_is_its_own(tmp_path: Path):
    """It goes on beside the training."""
    text = """
        from pytest_dlperf.mark import phase
        import threading, time
        def save():
            with phase("checkpoint"): time.sleep(0.001)
        for i in range(12):
            with step(): pass
            thread = threading.Thread(target=save)
            thread.start()
            thread.join()
        """
    program(tmp_path, text)
    found = records(tmp_path)
    assert "left_out" not in found["window"][0]
    assert list(found["metrics"][0]["values"]) == ["checkpoint_seconds"]
