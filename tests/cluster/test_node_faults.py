"""Faults of nodes, each injected for real: links, daemons, keys, code, versions, and ranks."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.launch.process.lease import lease_holder
from tests.helpers.cluster import Cluster
from tests.helpers.fault_table import ROWS, Row
from tests.helpers.lab import Lab, a_lab
from tests.helpers.written import written

REPOSITORY = Path(__file__).parents[2]
#: From the fault, or from the timeout, to the verdict; the issue's own bound.
MOST_S = 30.0
TOLD = """
import json, pathlib, time
def pytest_dlperf_outcome(outcome):
    (pathlib.Path(__file__).parent / "told").write_text(json.dumps(time.time()))
"""


class Scene(Cluster):
    """A cluster with a case that has a fault, and what is left of it."""

    def __init__(self, lab: Lab, path: Path, rows: list[Row]) -> None:
        super().__init__(lab, path)
        self._rows = rows
        (path / "conftest.py").write_text(TOLD, encoding="utf-8")

    def fault(
        self,
        name: str,
        *arguments: str,
        says: str,
        inject: Callable[[], None] | None = None,
        timeout_s: float = 0.0,
        left_after_s: float = 0.0,
        **options: Any,
    ) -> None:
        """Run a session; ``inject`` the fault when a rank trains; check what is said and left."""
        (self.path / "r.json").unlink(missing_ok=True)
        session = self.start(*arguments, **options)
        fault_at_s = None
        if inject is not None:
            self._await_training(session)
            inject()
            fault_at_s = time.time()
        output = session.communicate(timeout=240)[0]
        [outcome] = self.outcomes()
        reason = outcome["judgement"]["reason"]
        assert outcome["judgement"]["verdict"] == "error", reason
        assert says in reason.partition("\n")[0], f"{reason}\n{output}"
        told_s = json.loads((self.path / "told").read_text(encoding="utf-8"))
        seconds = told_s - (fault_at_s or self._fault_at_s(told_s, timeout_s))
        assert seconds < MOST_S
        end_s = time.monotonic() + left_after_s
        while self._left() and time.monotonic() < end_s:
            time.sleep(0.5)
        assert self._left() == []
        assert lease_holder() is None
        kept = list(self.path.glob(".dlperf/*/*2n*/run*/rank*.jsonl"))
        self._rows.append(
            Row(
                fault=f"two nodes: {name}",
                seen=self._shortened(reason.partition("\n")[0]),
                verdict="error",
                has_records=bool(kept),
            )
        )

    def _left(self) -> list[str]:
        return [
            line
            for number in self.lab.alive
            for line in self.lab.processes(number, f"DLPERF_RUN={self.path}")
        ]

    def _await_training(self, session: subprocess.Popen[str]) -> None:
        end_s = time.monotonic() + 240
        while not written(self.path, ".dlperf/*/*2n*/run1/rank00001.trains"):
            assert session.poll() is None, session.communicate()[0]
            assert time.monotonic() < end_s, "no rank has trained"
            time.sleep(0.05)

    def _fault_at_s(self, told_s: float, timeout_s: float) -> float:
        if timeout_s:
            [started] = self.path.glob(".dlperf/*/*2n*/run1/supervisor.log")
            return started.stat().st_mtime + timeout_s
        noted = list(self.path.glob(".dlperf/*/*2n*/run1/fault-at"))
        return float(noted[0].read_text(encoding="ascii")) if noted else told_s

    def _shortened(self, reason: str) -> str:
        text = reason.replace(f"{self.path}/", "").partition("2n1c: ")[2] or reason
        text = text.replace(str(self.lab.base), "…")
        return text if len(text) < 300 else f"{text[:299]}…"


@pytest.fixture
def lab() -> Iterator[Lab]:
    """A lab of its own: its nodes do not survive."""
    with a_lab(one_core=True) as made:
        yield made


@pytest.fixture
def scene(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Scene:
    path = [Path(__file__).parent, REPOSITORY, os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, path)))
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(lab.runtime))
    return Scene(lab, tmp_path, request.config.stash.get(ROWS, []))


def test_a_rank_of_the_second_node_raises(scene: Scene):
    scene.write("faulty:build", options={"fault": "raises"})
    scene.fault("a rank of the second raises", says="rank 1: ValueError: boom in step")


@pytest.mark.parametrize(
    "launcher",
    [
        # tests/faults kills one of two ranks on one node; here one of the second raises.
        pytest.param("torchrun", marks=pytest.mark.nightly),
        pytest.param("mpirun", marks=(pytest.mark.long_fault, pytest.mark.nightly)),
    ],
)
def test_a_rank_of_the_second_node_is_killed(scene: Scene, launcher: str):
    scene.write("faulty:build", options={"fault": "killed"}, launcher=launcher)
    scene.fault(
        f"a rank of the second is killed, under {launcher}",
        says="rank 1 stopped at iteration 4 of 30, without a word",
    )


# It waits for a timeout, or until the node is known to be lost; CI has one that loses its power.
@pytest.mark.nightly
@pytest.mark.long_fault
def test_a_rank_of_the_second_node_hangs(scene: Scene):
    scene.write("faulty:build", options={"fault": "sleeps"}, timeout_s=40.0)
    scene.fault(
        "a rank of the second hangs",
        says="rank 1 stopped at iteration 4 of 30, without a word: it was in misbehave",
        timeout_s=40.0,
    )


def test_a_node_loses_its_power(scene: Scene):
    scene.write("faulty:build", options={"fault": "paced"})
    scene.fault(
        "the second loses its power", says="node2 was lost", inject=lambda: scene.lab.kill(2)
    )


# It waits for a timeout, or until the node is known to be lost; CI has one that loses its power.
@pytest.mark.nightly
@pytest.mark.long_fault
def test_the_link_of_a_node_is_cut(scene: Scene):
    scene.write("faulty:build", options={"fault": "paced"})

    scene.fault(
        "the link of the second is cut",
        says="node2 was lost",
        inject=lambda: scene.lab.link(2, up=False),
        # The node behind a cut link ends by itself when it hears nothing.
        left_after_s=25.0,
    )


# It waits for a timeout, or until the node is known to be lost; CI has one that loses its power.
@pytest.mark.nightly
@pytest.mark.long_fault
def test_the_ssh_daemon_is_killed(scene: Scene):
    scene.write("faulty:build", options={"fault": "paced"})
    scene.fault(
        "its ssh daemon is killed",
        says="node2 was lost",
        inject=lambda: scene.lab.check(2, "pkill", "-KILL", "sshd") and None,
    )


# It waits for a timeout, or until the node is known to be lost; CI has one that loses its power.
@pytest.mark.nightly
@pytest.mark.long_fault
def test_what_runs_the_far_end_is_killed(scene: Scene):
    scene.write("faulty:build", options={"fault": "paced"})

    def kill() -> None:
        [agent] = scene.lab.check(2, "pgrep", "-f", "bin/torchrun").split()
        parent = scene.lab.check(2, "ps", "-o", "ppid=", "-p", agent).strip()
        scene.lab.check(2, "kill", "-KILL", parent)

    scene.fault("the supervisor of the second is killed", says="node2 was lost", inject=kill)


def test_one_host_by_two_names(scene: Scene):
    scene.write("faulty:build")
    scene.fault("one host by two names", says="are one host", hosts="node2:1,10.77.0.2:1")


def test_a_host_that_is_not_there(scene: Scene):
    scene.write("faulty:build")
    scene.fault("an unknown host", says="nowhere cannot be reached", hosts="node1:1,nowhere:1")


def test_a_host_that_does_not_answer(scene: Scene):
    scene.write("faulty:build")
    scene.lab.link(2, up=False)
    scene.fault("no link at the start", says="node2 cannot be reached")


def test_a_wrong_key(scene: Scene):
    scene.write("faulty:build")
    known = scene.lab.base / "known_hosts"
    lines = known.read_text(encoding="ascii").splitlines()
    key = (scene.lab.base / "id.pub").read_text(encoding="ascii").split()[1]
    lines[1] = " ".join([*lines[1].split()[:2], key])
    known.write_text("\n".join(lines) + "\n", encoding="ascii")
    scene.fault("another key than the known one", says="Host key verification failed")


def test_more_devices_than_a_host_has(scene: Scene):
    scene.write("faulty:build")
    scene.fault(
        "more devices than a host has",
        "--cpus=128",
        says="2n64c needs 64 cores",
        hosts="node1:64,node2:64",
    )


def test_other_code_on_a_node(scene: Scene):
    code = scene.path / "mine"
    code.mkdir()
    text = (Path(__file__).parent / "faulty.py").read_text(encoding="utf-8")
    (scene.path / "own_net.py").write_text(text, encoding="utf-8")
    other = scene.path / "other.py"
    other.write_text(f"{text}# another version\n", encoding="utf-8")
    scene.lab.check(2, "mount", "--bind", str(other), str(scene.path / "own_net.py"))
    scene.write("own_net:build")
    scene.fault("other code on the second", says="differs between node2 and node1")


def test_another_version_of_the_framework_on_a_node(scene: Scene):
    files = importlib.metadata.files("torch") or []
    [metadata] = [f.locate() for f in files if f.name == "METADATA" and "torch-" in str(f)]
    fake = scene.path / "METADATA"
    text = Path(metadata).read_text(encoding="utf-8")
    version = importlib.metadata.version("torch")
    fake.write_text(text.replace(f"Version: {version}", "Version: 1.2.3", 1), encoding="utf-8")
    scene.lab.check(2, "mount", "--bind", str(fake), str(metadata))
    scene.write("faulty:build")
    scene.fault("another version of torch on the second", says="node2 has torch 1.2.3")
