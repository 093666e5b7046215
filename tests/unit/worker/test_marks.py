"""Marks in a program of its own: nothing outside a case, the worker's records inside."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_dlperf.worker.marks import Marks, Settings

PLACE = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


def settings(folder: Path, iterations: int = 12, warmup: int = 2) -> Settings:
    return Settings(
        records=str(folder),
        iterations=iterations,
        warmup=warmup,
        work=4,
        world_size=1,
        place=PLACE,
    )


def records(folder: Path) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {}
    for line in (folder / "rank00000.jsonl").read_text().splitlines():
        values = json.loads(line)
        found.setdefault(values["record"], []).append(values)
    return found


def test_the_module_imports_nothing_and_does_nothing_outside_a_case():
    program = (
        "import sys; before = set(sys.modules);"
        "from pytest_dlperf.mark import step;"
        "print(*sorted(set(sys.modules) - before));"
        "\nwith step(work=3) as mark:\n    mark.loss(object())\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported, after_a_step = done.stdout.splitlines()
    assert set(imported.split()) <= {"__future__", "pytest_dlperf", "pytest_dlperf.mark"}
    assert after_a_step == imported


def test_steps_become_the_records_of_a_rank(tmp_path: Path):
    marks = Marks(settings(tmp_path))
    for index in range(20):
        with marks.step(index if index == 5 else None) as step:
            step.loss(2.0 - index / 100)
    found = records(tmp_path)
    spans = found["span"]
    assert [span["first_step"] for span in spans] == list(range(12))
    assert [span["work"] for span in spans] == [4, 4, 4, 4, 4, 5, 4, 4, 4, 4, 4, 4]
    assert all(span["seconds"] > 0 for span in spans)
    assert found["loss"][0]["values"] == [pytest.approx(2.0 - i / 100) for i in range(12)]
    window = sum(span["seconds"] for span in spans[2:])
    assert found["window"][0]["seconds"] == pytest.approx(window, rel=0.2, abs=0.01)
    assert found["memory"][0]["bytes"] > 1_000_000
    assert "end" in found


def test_time_between_steps_is_waiting_and_part_of_the_step(tmp_path: Path, monkeypatch):
    clock = iter(float(i) for i in range(1000))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    marks = Marks(settings(tmp_path))
    for _ in range(12):
        with marks.step(None):
            pass
    spans = records(tmp_path)["span"]
    # Two readings of the clock a step, one second apart.
    assert {(s["seconds"], s["data_wait_seconds"]) for s in spans[4:]} == {(2.0, 1.0)}
    assert spans[0]["data_wait_seconds"] == 0, "what built the program waited for no data"


def test_a_program_that_raises_says_so_in_the_records(tmp_path: Path):
    marks = Marks(settings(tmp_path))
    with pytest.raises(ValueError, match="boom"), marks.step(None):
        raise ValueError("boom")
    [failure] = records(tmp_path)["failure"]
    assert failure["message"] == "ValueError: boom"
    assert "in test_a_program_that_raises" in failure["traceback"]


def test_the_place_is_the_launchers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name, value in {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}.items():
        monkeypatch.setenv(name, value)
    values = settings(tmp_path)._asdict()
    monkeypatch.setenv("DLPERF_MARK", json.dumps(values))
    Marks.of_environment().close()
    [line] = (tmp_path / "rank00003.jsonl").read_text().splitlines()
    assert json.loads(line)["world_size"] == 4
