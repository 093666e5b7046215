from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.lab import Lab


class Cluster:
    """A user's folder, whose sessions run on node 1 of a lab."""

    def __init__(self, lab: Lab, path: Path) -> None:
        self.lab = lab
        self.path = path

    @property
    def workdir(self) -> Path:
        return self.path / ".dlperf"

    def write(self, workload: str = "workloads:build", **marker: Any) -> None:
        keys = {
            "precision": "fp32", "layout": "2n1c", "batch_size_per_device": 8, "iterations": 30,
            "warmup": 10, "runs": 1, "max_runs": 1, "timeout_s": 120.0, "speedup": None, **marker,
        }  # fmt: skip
        arguments = ", ".join(f"{key}={value!r}" for key, value in keys.items())
        target = "" if "command" in marker else f"{workload!r}, "
        (self.path / "test_net.py").write_text(
            textwrap.dedent(f"""
                import pytest
                @pytest.mark.dlperf({target}{arguments})
                def test_net(dlperf):
                    dlperf.run()
            """),
            encoding="utf-8",
        )

    def command(self, *arguments: str, hosts: str = "node1:1,node2:1") -> list[str]:
        return [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--dlperf-json=r.json",
            f"--dlperf-ssh=ssh -F {self.lab.ssh_config}",
            *([f"--dlperf-hosts={hosts}"] if hosts else []), *arguments,
        ]  # fmt: skip

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        hosts = options.pop("hosts", "node1:1,node2:1")
        return subprocess.Popen(
            self.lab.on(1, *self.command(*arguments, hosts=hosts), folder=self.path),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=dict(os.environ),
            **options,
        )

    def run(self, *arguments: str, **options: Any) -> tuple[int, str, list[dict[str, Any]]]:
        (self.path / "r.json").unlink(missing_ok=True)
        session = self.start(*arguments, **options)
        output = session.communicate(timeout=900)[0]
        return session.returncode, output, self.outcomes()

    def outcomes(self) -> list[dict[str, Any]]:
        results = self.path / "r.json"
        if not results.exists():
            return []
        found: list[dict[str, Any]] = json.loads(results.read_text(encoding="utf-8"))["outcomes"]
        return found


def check_trained(outcome: dict[str, Any], *, nodes: int = 2) -> None:
    """Check that a case was measured on so many nodes.

    Checksums that differ between ranks, losses that do not fall, or wrong batches would be
    an error; what others on this machine can cause is none of the nodes' doing.
    """
    assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
    [run, *_] = outcome["measurement"]["runs"]
    assert run["throughput"] > 0
    assert [rank["rank"] for rank in run["ranks"]] == list(range(len(run["ranks"])))
    assert {rank["node"] for rank in run["ranks"]} == {f"node{i + 1}" for i in range(nodes)}
    assert all(rank["loss_last"] < rank["loss_first"] for rank in run["ranks"])


def check_it_trains(cluster: Cluster, framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that the small training of a framework's own tests trains on two nodes."""
    workloads = Path(__file__).parents[1] / framework
    monkeypatch.setenv("PYTHONPATH", f"{workloads}{os.pathsep}{os.environ['PYTHONPATH']}")
    cluster.write(framework=framework)
    code, output, outcomes = cluster.run()
    assert outcomes, output
    check_trained(outcomes[0])
    assert code == 0, output
