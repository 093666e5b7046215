"""Many perf tests in one session, each looked at by a test of its own.

A session costs seconds before it trains anything: faults that have nothing to do with each other
are perf tests of one file, which is run once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.perf_project import PerfProject, perf_test

ROOT = Path(__file__).parents[2]

#: What the session's own conftest.py notes when the case of a test has ended.
_NOTES = """
    import json
    from pathlib import Path

    import pytest

    from pytest_dlperf.launch.process.lease import lease_holder
    from tests.helpers.processes import of_runs_in

    FOLDER = Path(__file__).parent
    NOTES = {}


    def pytest_runtest_logreport(report):
        if report.when == "call":
            name = report.nodeid.partition("::test_")[2].partition("[")[0]
            assert name not in NOTES, "one case for each test: they are told apart by its name"
            NOTES[name] = {
                "ended": report.outcome,
                "processes": of_runs_in(FOLDER),
                "lease": lease_holder(),
            }


    def pytest_sessionfinish():
        (FOLDER / "notes.json").write_text(json.dumps(NOTES), encoding="utf-8")
"""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """One perf test of a session that has ended."""

    outcome: dict[str, Any]
    #: For pytest: ``passed``, ``failed`` or ``skipped``.
    ended: str
    #: Command lines of the session's ranks and launchers, when the case had ended.
    processes: list[str]
    #: Who held the host's lease then.
    lease: str | None

    @property
    def verdict(self) -> str:
        return str(self.outcome["judgement"]["verdict"])

    @property
    def reason(self) -> str:
        return str(self.outcome["judgement"]["reason"])

    @property
    def measurement(self) -> dict[str, Any]:
        assert self.outcome["measurement"] is not None, self.reason
        return dict(self.outcome["measurement"])

    def assert_error(self, message: str) -> None:
        """Assert that it failed by an error that says ``message``, and left nothing."""
        assert (self.verdict, self.ended) == ("error", "failed"), self.reason
        assert message in self.reason, f"{message!r} is not in:\n{self.reason}"
        self.assert_nothing_left()

    def assert_nothing_left(self) -> None:
        assert self.processes == []
        assert self.lease is None


@dataclass(frozen=True, kw_only=True)
class OneSession:
    """A session that has ended."""

    folder: PerfProject
    exit_code: int
    output: str
    tests: dict[str, Ended]

    def __getitem__(self, name: str) -> Ended:
        assert name in self.tests, self.output
        return self.tests[name]


def run_together(
    path: Path,
    tests: Mapping[str, Mapping[str, Any]],
    *arguments: str,
    workloads: Path,
    environment: Mapping[str, str] | None = None,
    repeats: bool = False,
) -> OneSession:
    """Run tests, by their names without ``test_``, with the keys of their markers.

    ``workloads`` is the folder of the module ``workloads``, whose small training they run where
    no other is named; one with a ``command`` has none. ``repeats``: disturbed runs are repeated.
    """
    folder = PerfProject(path)
    runtime = path / "runtime"
    runtime.mkdir()
    paths = [path, workloads, ROOT, os.environ.get("PYTHONPATH", "")]
    folder.environment = {
        "PYTHONPATH": os.pathsep.join(filter(None, map(str, paths))),
        "DLPERF_RUNTIME_DIR": str(runtime),
        **(environment or {}),
    }
    folder.write_file("conftest.py", _NOTES)
    folder.write_tests(*(_test(name, **keys) for name, keys in tests.items()))
    once = () if repeats else ("-p", "tests.helpers.no_repeats")
    result, outcomes = folder.measured(*once, *arguments)
    output = "\n".join([*result.outlines, *result.errlines])
    notes = path / "notes.json"
    assert notes.exists(), output
    by_suite = {outcome["case"]["suite"]: outcome for outcome in outcomes}
    return OneSession(
        folder=folder,
        exit_code=int(result.ret),
        output=output,
        tests={
            name: Ended(outcome=by_suite[name], **noted)
            for name, noted in json.loads(notes.read_text(encoding="utf-8")).items()
        },
    )


def _test(name: str, *, workload: str = "workloads:build", **marker: Any) -> str:
    trained = () if "command" in marker else (workload,)
    keys = {
        "precision": "fp32", "layout": "1n2c", "batch_size_per_device": 8, "iterations": 30,
        "warmup": 10, "runs": 1, "max_runs": 1, "timeout_s": 120.0, **marker,
    }  # fmt: skip
    return perf_test(*trained, name=name, **keys)
