"""Faults of ranks that train together, under torchrun: all that can be in one session."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.helpers.scene import Scene, Together

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="there is no torch here: tox -e torch"
)
#: Timeouts where the machine is too busy for a short one.
TIMEOUT_S, PATIENT_S = 14.0, (60, 180)
#: Of one of two ranks: each with its name in the table of faults, and what its error says.
ENDS_BADLY = {
    "raises": ("one of two ranks raises", "rank 1: ValueError: boom in step"),
    "is-killed": (
        "one of two ranks is killed",
        "rank 1 stopped at iteration 4 of 15, without a word: its process was gone",
    ),
    "launcher-is-killed": ("torchrun is killed", "the launcher was killed by signal 9"),
}
STANDS = "rank 1 stopped at iteration 4 of 15, without a word: it was in "
ABORTS = "a rank aborts after a correct result"
#: Rank 1 hangs at the start of its interpreter.
NEVER_JOINS = """
import os, time
if os.environ.get('RANK') == '1' and '/never_joins-' in os.environ.get('DLPERF_RUN', ''):
    time.sleep(600)
"""


def named(fault: str) -> str:
    return fault.replace("-", "_")


def hang_at_start(scene: Scene) -> None:
    site = scene.path / "site"
    site.mkdir()
    site.joinpath("sitecustomize.py").write_text(NEVER_JOINS, encoding="utf-8")
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    scene.environment["PYTHONPATH"] = path


@pytest.fixture(scope="module")
def trainings(shared_scene: Scene) -> Together:
    """Every fault here, as cases of one session, and one after them that has none."""
    hang_at_start(shared_scene)
    for fault in ("asks-for-too-much", "aborts-at-its-end"):
        shared_scene.case(named(fault), "training:build", layout="1n1c", options={"fault": fault})
    shared_scene.case("nowhere", "nowhere:build", layout="1n1c")
    for fault in ENDS_BADLY:
        shared_scene.case(named(fault), "training:build", layout="1n2c", options={"fault": fault})
    shared_scene.case(
        "sleeps", "training:build", layout="1n2c", options={"fault": "sleeps"},
        timeout_s=TIMEOUT_S,
    )  # fmt: skip
    shared_scene.case("never_joins", "training:build", layout="1n2c", timeout_s=TIMEOUT_S)
    return Together(shared_scene, shared_scene.run())


def test_one_rank(trainings: Together):
    trainings.fault(
        "asks_for_too_much",
        "a rank asks for more memory than there is",
        says="out of memory on its host",
    )


def test_an_abort_after_a_correct_result(trainings: Together):
    """As gloo's threads do it now and then; the result counts, and the user gets a message."""
    scene, result = trainings.scene, trainings.result
    scene.check_measured(result.outcomes["aborts_at_its_end"])
    said = "every rank finished its training, then the launcher ended with -6"
    [note] = [line for line in result.output.splitlines() if said in line]
    assert note.startswith("note: aborts_at_its_end")
    scene.row(ABORTS, note.partition(": ")[2], "measured", 0.0, "aborts_at_its_end")


def test_a_workload_that_is_not_there(trainings: Together):
    trainings.fault(
        "nowhere",
        "the workload is not there",
        says="no module named 'nowhere' on the ranks' path",
    )


def test_an_interpreter_that_is_none(scene: Scene):
    scene.case("faulty", "training:build", layout="1n1c")
    result = scene.run("--dlperf-python=/bin/false")
    reason = result.outcomes["faulty"]["judgement"]["reason"]
    assert result.outcomes["faulty"]["judgement"]["verdict"] == "error"
    assert "/bin/false" in reason
    scene.row("the ranks' interpreter is none", reason.partition("\n")[0], "error", 0.0)


@pytest.mark.parametrize("fault", ENDS_BADLY)
def test_a_rank_that_ends_badly(trainings: Together, fault: str):
    name, says = ENDS_BADLY[fault]
    trainings.fault(named(fault), name, says=says)


# It ends as one that is killed does.
@pytest.mark.nightly
@pytest.mark.long_fault
def test_a_rank_that_leaves(scene: Scene):
    scene.case("faulty", "training:build", layout="1n2c", options={"fault": "leaves"})
    scene.fault(
        "one of two ranks exits with 0 too early",
        says="rank 1 stopped at iteration 4 of 15, without a word: its process was gone",
    )


def test_a_rank_that_hangs(trainings: Together, scene: Scene):
    name, says = "one of two ranks hangs, the other waits in a collective", f"{STANDS}sleeps ("
    if trainings.says("sleeps", says):
        outcome = trainings.fault("sleeps", name, says=says, times_out=True)
    else:
        scene.case("faulty", "training:build", layout="1n2c", options={"fault": "sleeps"})
        outcome = scene.fault(name, says=says, timeouts_s=PATIENT_S)
    check_the_healthy_one_is_not_blamed(outcome["judgement"]["reason"])


# Each waits for its timeout; CI has one rank that hangs.
@pytest.mark.nightly
@pytest.mark.long_fault
@pytest.mark.parametrize(
    ("fault", "name", "where"),
    [
        (
            "holds-the-interpreter",
            "one of two ranks hangs in C, with the interpreter's lock",
            "holds_the_interpreter (",
        ),
        (
            "is-stuck-at-a-lock",
            "one of two ranks waits for a lock",
            "is_stuck_at_a_lock (",
        ),
    ],
)
def test_a_rank_that_hangs_otherwise(scene: Scene, fault: str, name: str, where: str):
    scene.case("faulty", "training:build", layout="1n2c", options={"fault": fault})
    outcome = scene.fault(name, says=f"{STANDS}{where}", timeouts_s=(24, *PATIENT_S))
    check_the_healthy_one_is_not_blamed(outcome["judgement"]["reason"])


def check_the_healthy_one_is_not_blamed(reason: str) -> None:
    assert "rank 0" not in reason.partition("rank 1")[0]


def test_a_rank_that_never_joins(trainings: Together, scene: Scene):
    name, says = "one of two ranks hangs before it joins", "rank 1 never started"
    # Where both are still importing, neither has started.
    if trainings.says("never_joins", says):
        trainings.fault("never_joins", name, says=says, times_out=True)
    else:
        hang_at_start(scene)
        site = scene.path / "site/sitecustomize.py"
        site.write_text(NEVER_JOINS.replace("never_joins", "faulty"), encoding="utf-8")
        scene.case("faulty", "training:build", layout="1n2c")
        scene.fault(name, says=says, timeouts_s=PATIENT_S)


# It waits as long as torchrun tries; CI has a port that is taken in tests/torch.
@pytest.mark.nightly
def test_a_port_that_is_taken(scene: Scene):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        scene.case("faulty", "training:build", layout="2n1c")
        scene.fault(
            "the port of the rendezvous is taken",
            "--dlperf-node-rank=0",
            f"--dlperf-master=127.0.0.1:{port}",
            says="ended with exit code 1; no rank has started",
            # So long torchrun tries.
            timeouts_s=(20, *PATIENT_S),
        )


# It writes gigabytes; CI has 200 MiB in test_programs.py.
@pytest.mark.nightly
@pytest.mark.long_fault
def test_ranks_that_print_gigabytes(scene: Scene):
    scene.path.joinpath("printing.py").write_text(
        "import os\nwhile True:\n    os.write(1, b'x' * 1048575 + b'\\n')\n", encoding="utf-8"
    )
    scene.case(
        "faulty",
        command=[sys.executable, str(scene.path / "printing.py")],
        launcher="torchrun",
        layout="1n1c",
    )
    outcome = scene.fault("ranks print gigabytes", says="its ranks print without end")
    size = sum(
        path.stat().st_size for path in Path(outcome["folder"]).rglob("*") if path.is_file()
    )
    assert size < 3 * 64 * 2**20
