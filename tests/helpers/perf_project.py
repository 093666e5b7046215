"""A user's folder with perf tests, and pytest sessions in it that are processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.processes import of_runs_in

#: A session that an xdist worker of these tests starts is no worker.
_OF_A_WORKER = ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID")


def perf_test(*workload: str, name: str = "net", **marker: Any) -> str:
    """Return the source of ``test_<name>``, marked with the workload, if any, and the keys."""
    arguments = [*map(repr, workload), *(f"{key}={value!r}" for key, value in marker.items())]
    return (
        f"\n@pytest.mark.dlperf({', '.join(arguments)})\n"
        f"def test_{name}(dlperf):\n    dlperf.run()\n"
    )


class PerfProject:
    """The folder: writes its tests, starts sessions there, and reads what they left."""

    #: Where a session writes its results, from the folder.
    results = "r.json"

    def __init__(self, path: Path) -> None:
        self.path = path
        #: For its sessions, more than this process has itself.
        self.environment: dict[str, str] = {}

    def write_file(self, name: str, text: str) -> None:
        (self.path / name).write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")

    def write_tests(self, *tests: str, file: str = "test_net.py") -> None:
        """Write tests that ``perf_test`` made into one file."""
        self.write_file(file, "import pytest\n" + "\n".join(tests))

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of a session: what starts it elsewhere puts its own before."""
        return [
            sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest",
            *arguments,
        ]  # fmt: skip

    def start(self, *arguments: str, **process: Any) -> subprocess.Popen[Any]:
        """Start a session; ``process`` is of ``Popen``: where its output goes."""
        environment = {k: v for k, v in os.environ.items() if k not in _OF_A_WORKER}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(self.path), environment.get("PYTHONPATH")])
        )
        here = Path.cwd()  # a test may have gone into a folder of this one
        cwd = here if here.is_relative_to(self.path) else self.path
        return subprocess.Popen(
            self.command(*arguments),
            env=environment | self.environment,
            **{"cwd": cwd, "stdin": subprocess.DEVNULL, **process},
        )

    def session(self, *arguments: str) -> pytest.RunResult:
        """Run a session to its end; what it writes is shown if the test fails."""
        began_s = time.monotonic()
        # Into files: a process that is left would keep a pipe open
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            status = self.start(*arguments, stdout=out, stderr=err).wait()
            took_s = time.monotonic() - began_s
            lines = [_lines(file) for file in (out, err)]
        sys.stdout.write("\n".join(lines[0]) + "\n")
        sys.stderr.write("\n".join(lines[1]) + "\n")
        return pytest.RunResult(status, *lines, took_s)

    def measured(self, *arguments: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
        """Run a session; return it with its outcomes, none where it wrote no results."""
        (self.path / self.results).unlink(missing_ok=True)
        return self.session(f"--dlperf-json={self.results}", *arguments), self.read_outcomes()

    def read_outcomes(self) -> list[dict[str, Any]]:
        """Return the outcomes that the results file has; none without one."""
        file = self.path / self.results
        if not file.exists():
            return []
        values = json.loads(file.read_text(encoding="utf-8"))
        assert values["format"] == 1
        found: list[dict[str, Any]] = values["outcomes"]
        return found

    def ours(self) -> list[str]:
        """Return the command lines of living processes that belong to runs of this folder."""
        return of_runs_in(self.path)


def _lines(file: Any) -> list[str]:
    file.seek(0)
    return str(file.read().decode("utf-8", errors="replace")).splitlines()
