"""Faults of what is started: plain programs, without any framework, all in one session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.scene import Scene, Together

#: Each with its name in the table of faults, and what its error says.
ENDS_BADLY = {
    "raises": ("a rank raises", "rank 0: ValueError: boom in step"),
    "leaves": ("a rank exits with 0 too early", "ended after 4 marked steps"),
    "is-killed": ("a rank is killed by SIGKILL", "was killed by signal 9"),
    "crashes": ("a rank crashes (SIGSEGV)", "it crashed (Segmentation fault) in string_at"),
    "leaves-daemons": ("twenty daemons are left, which ignore SIGTERM", "boom, and daemons"),
    "forks-on": ("a process is left that forks on, parents gone", "with exit code 3"),
    "launcher-is-killed": (
        "the launcher is killed, what it started ignores SIGTERM",
        "was killed by signal 9",
    ),
    "tears-its-records": ("killed within a line of its records", "was killed by signal 9"),
    "removes-the-folder": ("the run's folder is removed meanwhile", "No such file"),
    "kills-the-supervisor": ("the supervisor is killed", "the supervisor of the run was kill"),
    "is-short-of-memory": (
        "a rank gets no memory (RLIMIT_AS)",
        "rank 0: out of memory on its host",
    ),
    "meets-the-limit-of-a-file": ("a file meets its limit (RLIMIT_FSIZE)", "File too large"),
}
HANGS = {
    "hangs": ("a rank hangs in a step", "it was in hangs ("),
    "hangs-at-start": ("a program hangs before its first step", "its log shows what it did"),
    "ignores-sigterm": ("a rank hangs, and ignores SIGTERM", "and ignored SIGTERM"),
}
NO_FAULT = {
    "closes-stdout": "a rank closes its output",
    "reads-stdin": "a rank reads its standard input: it is empty",
}
#: The first is enough unless the machine is busy.
TIMEOUT_S, PATIENT_S = 4.0, (20, 60)


def named(fault: str) -> str:
    return fault.replace("-", "_")


@pytest.fixture(scope="module")
def programs(shared_scene: Scene) -> Together:
    """Every fault here, as cases of one session, and one after them that has none."""
    for fault in (*ENDS_BADLY, *NO_FAULT, "prints-on-and-on"):
        shared_scene.program(named(fault), fault)
    for fault in HANGS:
        shared_scene.program(named(fault), fault, timeout_s=TIMEOUT_S)
    shared_scene.case(
        "not_there", command=["/nowhere/python3", "x.py"], launcher=None, layout="1n1c"
    )
    return Together(shared_scene, shared_scene.run())


@pytest.mark.parametrize("fault", ENDS_BADLY)
def test_a_program_that_ends_badly(programs: Together, fault: str):
    name, says = ENDS_BADLY[fault]
    programs.fault(named(fault), name, says=says)


@pytest.mark.parametrize("fault", HANGS)
def test_a_program_that_hangs(programs: Together, scene: Scene, fault: str):
    name, says = HANGS[fault]
    if programs.says(named(fault), says):
        programs.fault(named(fault), name, says=says, times_out=True)
    else:
        scene.program("faulty", fault)
        scene.fault(name, says=says, timeouts_s=PATIENT_S)


@pytest.mark.parametrize("fault", NO_FAULT)
def test_what_is_no_fault(programs: Together, fault: str):
    programs.fault(named(fault), NO_FAULT[fault], says="", verdict="measured")


def test_a_log_without_end(programs: Together):
    outcome = programs.fault(
        "prints_on_and_on", "a rank prints 200 MiB: 64 are kept", says="", verdict="measured"
    )
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


def test_a_program_that_is_not_there(programs: Together):
    programs.fault(
        "not_there",
        "the program is not there",
        says="could not be started (/nowhere/python3: No such",
    )
