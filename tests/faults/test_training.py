"""Faults of ranks that train together, under torchrun."""

from __future__ import annotations

import importlib.util
import os
import socket
import sys
from pathlib import Path

import pytest

from tests.helpers.scene import Scene

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="there is no torch here: tox -e faults"
)
#: Timeouts where the machine is too busy for a short one.
PATIENT_S = (60, 180)
long_fault = pytest.mark.long_fault


def test_one_rank(scene: Scene):
    scene.case("faulty", "training:build", layout="1n1c", options={"fault": "asks-for-too-much"})
    scene.fault("a rank asks for more memory than there is", says="out of memory on its host")


def test_an_abort_after_a_correct_result(scene: Scene):
    """As gloo's threads do it now and then; the result counts, and the user is told."""
    scene.case("faulty", "training:build", layout="1n1c", options={"fault": "aborts-at-its-end"})
    result = scene.run()
    outcome = result.outcomes["faulty"]
    scene.check_measured(outcome)
    said = "every rank finished its training, then the launcher ended with -6"
    [note] = [line for line in result.output.splitlines() if said in line]
    assert note.startswith("note: faulty")
    scene.row("a rank aborts after a correct result", note.partition(": ")[2], "measured", 0.0)


def test_a_workload_that_is_not_there(scene: Scene):
    scene.case("faulty", "nowhere:build", layout="1n1c")
    scene.fault("the workload is not there", says="no module named 'nowhere' on the ranks' path")


def test_an_interpreter_that_is_none(scene: Scene):
    scene.case("faulty", "training:build", layout="1n1c")
    result = scene.run("--dlperf-python=/bin/false")
    reason = result.outcomes["faulty"]["judgement"]["reason"]
    assert result.outcomes["faulty"]["judgement"]["verdict"] == "error"
    assert "/bin/false" in reason
    scene.row("the ranks' interpreter is none", reason.partition("\n")[0], "error", 0.0)


@pytest.mark.parametrize(
    ("fault", "name", "says"),
    [
        ("raises", "one of two ranks raises", "rank 1: ValueError: boom in step"),
        (
            "is-killed",
            "one of two ranks is killed",
            "rank 1 stopped at iteration 4 of 15, without a word: its process was gone",
        ),
        pytest.param(
            "leaves",
            "one of two ranks exits with 0 too early",
            "rank 1 stopped at iteration 4 of 15, without a word: its process was gone",
            marks=long_fault,
        ),
        ("launcher-is-killed", "torchrun is killed", "the launcher was killed by signal 9"),
    ],
)
def test_a_rank_that_ends_badly(scene: Scene, fault: str, name: str, says: str):
    scene.case("faulty", "training:build", layout="1n2c", options={"fault": fault})
    scene.fault(name, says=says)


@pytest.mark.parametrize(
    ("fault", "name", "says"),
    [
        ("sleeps", "one of two ranks hangs, the other waits in a collective", "in sleeps ("),
        pytest.param(
            "holds-the-interpreter",
            "one of two ranks hangs in C, with the interpreter's lock",
            "in holds_the_interpreter (",
            marks=long_fault,
        ),
        pytest.param(
            "is-stuck-at-a-lock",
            "one of two ranks waits for a lock",
            "in is_stuck_at_a_lock (",
            marks=long_fault,
        ),
    ],
)
def test_a_rank_that_hangs(scene: Scene, fault: str, name: str, says: str):
    scene.case("faulty", "training:build", layout="1n2c", options={"fault": fault})
    says = f"rank 1 stopped at iteration 4 of 15, without a word: it stood {says}"
    outcome = scene.fault(name, says=says, timeouts_s=(24, *PATIENT_S))
    # The healthy one is not blamed.
    reason = outcome["judgement"]["reason"]
    assert "rank 0" not in reason.partition("rank 1")[0]


def test_a_rank_that_never_joins(scene: Scene):
    """It hangs at the start of its interpreter."""
    site = scene.path / "site"
    site.mkdir()
    site.joinpath("sitecustomize.py").write_text(
        "import os, time\n"
        "if os.environ.get('RANK') == '1' and 'DLPERF_RUN' in os.environ:\n"
        "    time.sleep(600)\n",
        encoding="utf-8",
    )
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])
    scene.environment["PYTHONPATH"] = path
    scene.case("faulty", "training:build", layout="1n2c")
    scene.fault(
        "one of two ranks hangs before it joins",
        says="rank 1 never started",
        timeouts_s=(24, *PATIENT_S),
    )


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


@long_fault
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
