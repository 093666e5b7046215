"""Faults of what is started: a plain program, without any framework."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.scene import Scene


@pytest.mark.parametrize(
    ("fault", "name", "says"),
    [
        ("raises", "a rank raises", "rank 0: ValueError: boom in step"),
        ("leaves", "a rank exits with 0 too early", "ended after 4 marked steps"),
        ("is-killed", "a rank is killed by SIGKILL", "was killed by signal 9"),
        ("crashes", "a rank crashes (SIGSEGV)", "it crashed (Segmentation fault) in string_at"),
        ("leaves-daemons", "twenty daemons are left, which ignore SIGTERM", "boom, and daemons"),
        ("forks-on", "a process is left that forks on, parents gone", "with exit code 3"),
        (
            "launcher-is-killed",
            "the launcher is killed, what it started ignores SIGTERM",
            "was killed by signal 9",
        ),
        ("tears-its-records", "killed within a line of its records", "was killed by signal 9"),
        ("removes-the-folder", "the run's folder is removed meanwhile", "No such file"),
        ("kills-the-supervisor", "the supervisor is killed", "the supervisor of the run was kill"),
    ],
)
def test_a_program_that_ends_badly(scene: Scene, fault: str, name: str, says: str):
    scene.program("faulty", fault)
    scene.fault(name, says=says)


@pytest.mark.parametrize(
    ("fault", "name", "says"),
    [
        ("hangs", "a rank hangs in a step", "it stood in hangs ("),
        (
            "hangs-at-start",
            "a program hangs before its first step",
            "what it did stands in its log",
        ),
        ("ignores-sigterm", "a rank hangs, and ignores SIGTERM", "and did not heed SIGTERM"),
    ],
)
def test_a_program_that_hangs(scene: Scene, fault: str, name: str, says: str):
    scene.program("faulty", fault)
    scene.fault(name, says=says, timeouts_s=(4, 20, 60))


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        ("closes-stdout", "a rank closes its output"),
        ("reads-stdin", "a rank reads its standard input: it is empty"),
    ],
)
def test_what_is_no_fault(scene: Scene, fault: str, name: str):
    scene.program("faulty", fault)
    scene.fault(name, says="", verdict="measured")


def test_a_log_without_end(scene: Scene):
    scene.program("faulty", "prints-on-and-on")
    outcome = scene.fault("a rank prints 200 MiB: 64 are kept", says="", verdict="measured")
    [run] = outcome["measurement"]["runs"]
    log = Path(run["log"])
    assert log.stat().st_size <= 64 * 2**20 + 200
    text = log.read_bytes()
    assert text.startswith(b"the first line\n")
    assert text.endswith(b"the last line\n")
    [left_out] = [line for line in text.splitlines() if line.startswith(b"---")]
    assert left_out.endswith(b"bytes are left out here ---")
    kept = len(text) - len(left_out) - 1
    assert int(left_out.split()[2]) + kept == 29 + 200 * 10486 * 100


def test_a_program_that_is_not_there(scene: Scene):
    scene.case("faulty", command=["/nowhere/python3", "x.py"], launcher=None, layout="1n1c")
    scene.fault("the program is not there", says="could not be started (/nowhere/python3: No such")
