"""A session with a fault in it, and what it left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_dlperf.launch.lease import lease_holder
from tests.helpers.fault_table import Row
from tests.helpers.processes import heed_interrupts, of_runs_in

PROGRAM = Path(__file__).parents[1] / "faults" / "program.py"
#: From the fault, or from the timeout, to the verdict; the issue's own bound.
MOST_S = 30.0
CONFTEST = """
import json, pathlib, time
def pytest_dlperf_outcome(outcome):
    with (pathlib.Path(__file__).parent / "told").open("a") as file:
        file.write(json.dumps([outcome.case.id, time.time()]) + "\\n")
"""


@dataclass
class Result:
    """What a session told and left."""

    status: int
    output: str
    #: Of the results file, by case id.
    outcomes: dict[str, Any] = field(default_factory=dict)


class Scene:
    """A folder with a case that has a fault, and one after it that has none."""

    def __init__(self, path: Path, rows: list[Row]) -> None:
        self.path = path
        self.temporary = path / "tmp"
        self.temporary.mkdir()
        self.environment = {"TMPDIR": str(self.temporary)}
        self._rows = rows
        self._cases: dict[str, str] = {}
        #: Of the case ``faulty``; 0 for one that nothing reaches.
        self.timeout_s = 0.0
        (path / "conftest.py").write_text(CONFTEST, encoding="utf-8")

    def program(self, name: str, fault: str = "none", **marker: Any) -> None:
        """Add a case of the plain program."""
        command = [sys.executable, str(PROGRAM), fault, "{iterations}"]
        keys = {"command": command, "launcher": None, "layout": "1n1c", **marker}
        self.case(name, **keys)

    def case(self, name: str, *workload: str, **marker: Any) -> None:
        keys = {
            "precision": "fp32", "batch_size_per_device": 8, "iterations": 15, "warmup": 5,
            "runs": 1, "timeout_s": 300.0, **marker,
        }  # fmt: skip
        arguments = [*map(repr, workload), *(f"{key}={value!r}" for key, value in keys.items())]
        self._cases[name] = f"""
            @pytest.mark.dlperf({", ".join(arguments)}, suite={name!r})
            def test_{name}(dlperf):
                dlperf.run()
        """

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the session: first the cases given, then one without a fault."""
        self.program("fine")
        text = "import pytest\n" + "".join(map(textwrap.dedent, self._cases.values()))
        if self.timeout_s:
            text = text.replace("timeout_s=300.0", f"timeout_s={self.timeout_s}", 1)
        (self.path / "test_faulty.py").write_text(text, encoding="utf-8")
        return subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest",
             "--dlperf-json=r.json", *arguments],
            cwd=self.path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **self.environment},
            preexec_fn=heed_interrupts,  # noqa: PLW1509
        )  # fmt: skip

    def ended(self, session: subprocess.Popen[bytes]) -> Result:
        output = session.communicate(timeout=300)[0].decode(errors="replace")
        results = self.path / "r.json"
        outcomes = []
        if results.exists():
            outcomes = json.loads(results.read_text(encoding="utf-8"))["outcomes"]
        return Result(session.returncode, output, {o["case"]["suite"]: o for o in outcomes})

    def run(self, *arguments: str) -> Result:
        return self.ended(self.start(*arguments))

    def fault(
        self,
        fault: str,
        *arguments: str,
        says: str,
        verdict: str = "error",
        timeouts_s: Sequence[float] = (),
    ) -> dict[str, Any]:
        """Run; check the verdict on the case ``faulty``, and that all else is as it should be.

        Return its outcome. ``timeouts_s``: what its own timeout ends; a machine that is too busy
        to come to the fault within the first gets the next.
        """
        for timeout_s in timeouts_s or (0,):
            self.timeout_s = timeout_s
            result = self.run(*arguments)
            assert "faulty" in result.outcomes, result.output
            outcome: dict[str, Any] = result.outcomes["faulty"]
            judgement = outcome["judgement"]
            problems = [p["message"] for p in (outcome["measurement"] or {}).get("problems", ())]
            seen = " ".join([judgement["reason"].partition("\n")[0], *problems])
            if says in seen:
                break
        if verdict == "error":
            assert judgement["verdict"] == verdict, judgement["reason"]
        else:
            self.check_measured(outcome)
        assert says in seen, judgement["reason"]
        # The session went on, and kept what it had.
        self.check_measured(result.outcomes["fine"])
        seconds = self._seconds(outcome, bool(timeouts_s))
        self.row(fault, seen if verdict == "error" else "nothing", verdict, seconds)
        return outcome

    @staticmethod
    def check_measured(outcome: dict[str, Any]) -> None:
        """Check that it has a rate; not which verdict, as others may use the machine meanwhile."""
        assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
        assert outcome["measurement"]["throughput"] > 0

    def row(self, fault: str, seen: str, verdict: str, seconds: float) -> None:
        """Check that nothing is left, and that it did not take long; keep that for the table."""
        processes, locks = self.ours(), lease_holder()
        assert processes == []
        assert locks is None
        assert list(self.temporary.glob("dlperf-*")) == []
        assert seconds < MOST_S
        kept = sum(1 for _ in self.path.glob(".dlperf/*/*/run*/rank*.jsonl"))
        self._rows.append(
            Row(
                fault=fault,
                seen=self._shortened(seen),
                verdict=verdict,
                seconds=max(0.0, seconds),
                processes=len(processes),
                locks=0 if locks is None else 1,
                records="kept" if kept else "none were written",
            )
        )

    def _seconds(self, outcome: dict[str, Any], timeout: bool) -> float:
        lines = (self.path / "told").read_text(encoding="utf-8").splitlines()
        told = next(at for name, at in map(json.loads, lines) if name == outcome["case"]["id"])
        return float(
            told - self.fault_at(outcome["case"]["protocol"]["timeout_s"] if timeout else None)
        )

    def fault_at(self, timeout_s: float | None = None) -> float:
        """Return when the fault was injected, or the timeout of its run passed."""
        runs = sorted(self.path.glob(".dlperf/*/faulty*/run1/supervisor.log"))
        if timeout_s is not None:
            # Its supervisor writes nothing into it: its time is that of the start.
            return runs[-1].stat().st_mtime + timeout_s
        noted = list(self.path.glob(".dlperf/*/*/fault-at"))
        if noted:
            return float(noted[0].read_text(encoding="ascii"))
        return runs[-1].stat().st_mtime if runs else time.time()

    def _shortened(self, seen: str) -> str:
        seen = re.sub(r"^faulty\S*: ", "", seen)
        seen = re.sub(rf"{re.escape(str(self.path))}\S*/", "…/", seen)
        seen = re.sub(r"/\S*/(?=[\w.-]+\b)", "…/", seen)
        return seen if len(seen) < 300 else f"{seen[:299]}…"

    def wait_for(self, pattern: str) -> None:
        end_s = time.monotonic() + 60
        while not list(self.path.glob(pattern)):
            assert time.monotonic() < end_s, f"{pattern} never came"
            time.sleep(0.02)

    def wait_until_free(self) -> float:
        """Return when the lease was freed and no process was left."""
        end_s = time.monotonic() + MOST_S
        while lease_holder() is not None or self.ours():
            assert time.monotonic() < end_s, f"still there: {self.ours()}"
            time.sleep(0.02)
        return time.time()

    def ours(self) -> list[str]:
        """Return the command lines of living processes that belong to runs of this folder."""
        return of_runs_in(self.path)
