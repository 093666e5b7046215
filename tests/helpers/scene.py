"""A session with faults in it, and what it left."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_dlperf.launch.process.lease import lease_holder
from tests.helpers.fault_table import Row
from tests.helpers.perf_project import PerfProject, perf_test
from tests.helpers.processes import heed_interrupts
from tests.helpers.written import written

PROGRAM = Path(__file__).parents[1] / "faults" / "program.py"
#: From the fault, or from the timeout, to the verdict; the issue's own bound.
MOST_S = 30.0
#: When each case was judged, and what was left of it once its test had ended.
CONFTEST = """
import json
import time
from pathlib import Path

from pytest_dlperf.launch.process.lease import lease_holder
from tests.helpers.processes import of_runs_in

FOLDER = Path(__file__).parent


def write(name, *values):
    with (FOLDER / name).open("a") as file:
        file.write(json.dumps(values) + "\\n")


def pytest_dlperf_outcome(outcome):
    write("told", outcome.case.id, time.time())


def pytest_runtest_logfinish(nodeid):
    name = nodeid.partition("::test_")[2].partition("[")[0]
    write("left", name, of_runs_in(FOLDER), lease_holder())
"""


@dataclass
class Result:
    """What a session printed and left."""

    status: int
    output: str
    #: Of the results file, by case id.
    outcomes: dict[str, Any] = field(default_factory=dict)


class Scene(PerfProject):
    """A folder with a case that has a fault, or several, and one after them that has none."""

    def __init__(self, path: Path, rows: list[Row]) -> None:
        super().__init__(path)
        self.temporary = path / "tmp"
        self.temporary.mkdir()
        self.environment = {"TMPDIR": str(self.temporary)}
        self._rows = rows
        self._cases: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {}
        self.write_file("conftest.py", CONFTEST)

    def program(self, name: str, fault: str = "none", **marker: Any) -> None:
        """Add a case of the plain program."""
        command = [sys.executable, str(PROGRAM), fault, "{iterations}"]
        keys = {"command": command, "launcher": None, "layout": "1n1c", **marker}
        self.case(name, **keys)

    def case(self, name: str, *workload: str, **marker: Any) -> None:
        keys = {
            "precision": "fp32", "batch_size_per_device": 8, "iterations": 15, "warmup": 5,
            "runs": 1, "max_runs": 1, "timeout_s": 300.0, "speedup": None, **marker,
        }  # fmt: skip
        self._cases[name] = (workload, keys)

    def start(self, *arguments: str, **process: Any) -> subprocess.Popen[Any]:
        """Start the session: first the cases given, then one without a fault."""
        self.program("fine")
        tests = [
            perf_test(*workload, name=name, **keys)
            for name, (workload, keys) in self._cases.items()
        ]
        self.write_tests(*tests, file="test_faulty.py")
        return super().start(
            "-p", "tests.helpers.no_repeats", f"--dlperf-json={self.results}", *arguments,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=heed_interrupts,
            **process,
        )  # fmt: skip

    def ended(self, session: subprocess.Popen[bytes]) -> Result:
        output = session.communicate(timeout=900)[0].decode(errors="replace")
        outcomes = {o["case"]["suite"]: o for o in self.read_outcomes()}
        return Result(session.returncode, output, outcomes)

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
        result = None
        for timeout_s in timeouts_s or (300.0,):
            self._cases["faulty"][1]["timeout_s"] = timeout_s
            result = self.run(*arguments)
            if says in self.seen(result, "faulty"):
                break
        assert result is not None
        return self.check(
            result, "faulty", fault=fault, says=says, verdict=verdict, times_out=bool(timeouts_s)
        )

    @staticmethod
    def seen(result: Result, name: str) -> str:
        """Return what is said of a case: its reason's first line, and its problems."""
        assert name in result.outcomes, result.output
        outcome = result.outcomes[name]
        problems = [p["message"] for p in (outcome["measurement"] or {}).get("problems", ())]
        return " ".join([outcome["judgement"]["reason"].partition("\n")[0], *problems])

    def check(
        self,
        result: Result,
        name: str,
        *,
        fault: str,
        says: str,
        verdict: str = "error",
        times_out: bool = False,
    ) -> dict[str, Any]:
        """Check what a session that has ended says of case ``name``, and what it left.

        Return the outcome of the case.
        """
        seen = self.seen(result, name)
        outcome: dict[str, Any] = result.outcomes[name]
        judgement = outcome["judgement"]
        if verdict == "error":
            assert judgement["verdict"] == verdict, judgement["reason"]
        else:
            self.check_measured(outcome)
        assert says in seen, judgement["reason"]
        # The session went on, and kept what it had.
        self.check_measured(result.outcomes["fine"])
        seconds = self._seconds(outcome, times_out)
        self.row(fault, seen if verdict == "error" else "nothing", verdict, seconds, name)
        return outcome

    @staticmethod
    def check_measured(outcome: dict[str, Any]) -> None:
        """Check that it has a rate; not which verdict, as others may use the machine meanwhile."""
        assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
        assert outcome["measurement"]["throughput"] > 0

    def row(
        self, fault: str, seen: str, verdict: str, seconds: float, name: str = "faulty"
    ) -> None:
        """Check that nothing is left, and that it did not take long; keep that for the table."""
        assert self._left_when_it_ended(name) == []
        assert self.ours() == []
        assert lease_holder() is None
        assert list(self.temporary.glob("dlperf-*")) == []
        assert seconds < MOST_S
        kept = list(self.path.glob(f".dlperf/*/{name}-*/run*/rank*.jsonl"))
        self._rows.append(
            Row(
                fault=fault,
                seen=self._shortened(seen, name),
                verdict=verdict,
                has_records=bool(kept),
            )
        )

    def _left_when_it_ended(self, name: str) -> list[object]:
        """Return the processes and the lease that were there when the test of a case had ended."""
        left = self.path / "left"
        lines = left.read_text(encoding="utf-8").splitlines() if left.exists() else []
        return [
            thing
            for test, processes, lease in map(json.loads, lines)
            if test == name
            for thing in [*processes, *([lease] if lease is not None else [])]
        ]

    def _seconds(self, outcome: dict[str, Any], times_out: bool) -> float:
        lines = (self.path / "told").read_text(encoding="utf-8").splitlines()
        # The last: where the machine is busy there were several sessions.
        told = [at for name, at in map(json.loads, lines) if name == outcome["case"]["id"]][-1]
        timeout_s = outcome["case"]["protocol"]["timeout_s"] if times_out else None
        return float(told - self._fault_at(outcome["case"]["suite"], timeout_s))

    def _fault_at(self, name: str, timeout_s: float | None = None) -> float:
        """Return when the fault was injected, or the timeout of its run passed."""
        runs = sorted(self.path.glob(f".dlperf/*/{name}-*/run1/supervisor.log"))
        if timeout_s is not None:
            # Its supervisor writes nothing into it: its time is that of the start.
            return runs[-1].stat().st_mtime + timeout_s
        noted = list(self.path.glob(f".dlperf/*/{name}-*/fault-at"))
        if noted:
            return float(noted[0].read_text(encoding="ascii"))
        return runs[-1].stat().st_mtime if runs else time.time()

    def _shortened(self, seen: str, name: str) -> str:
        seen = re.sub(rf"^{name}-\S*: ", "", seen)
        seen = re.sub(rf"{re.escape(str(self.path))}\S*/", "…/", seen)
        seen = re.sub(r"/\S*/(?=[\w.-]+\b)", "…/", seen)
        return seen if len(seen) < 300 else f"{seen[:299]}…"

    def wait_for(self, pattern: str) -> None:
        end_s = time.monotonic() + 60
        while not written(self.path, pattern):
            assert time.monotonic() < end_s, f"{pattern} never came"
            time.sleep(0.02)

    def wait_until_free(self) -> float:
        """Return when the lease was freed and no process was left."""
        end_s = time.monotonic() + MOST_S
        while lease_holder() is not None or self.ours():
            assert time.monotonic() < end_s, f"still there: {self.ours()}"
            time.sleep(0.02)
        return time.time()


@dataclass(frozen=True)
class Together:
    """Faults that were cases of one session, each checked by a test of its own."""

    scene: Scene
    result: Result

    def fault(self, name: str, fault: str, **expected: Any) -> dict[str, Any]:
        """Check the case ``name``, as ``Scene.check`` does; return its outcome."""
        return self.scene.check(self.result, name, fault=fault, **expected)

    def says(self, name: str, text: str) -> bool:
        """Return whether a case's error has ``text``.

        It has not where a machine is too busy to come to the fault within the timeout.
        """
        return text in self.scene.seen(self.result, name)
