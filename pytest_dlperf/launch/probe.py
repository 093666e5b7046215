"""Probe the environment behind a prefix or of another interpreter: one launch per framework."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Final

from filelock import FileLock

from pytest_dlperf.core import runtime_folder
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.place import Place
from pytest_dlperf.core.run import LaunchPlan, Run
from pytest_dlperf.core.wire import PROBE_MARK
from pytest_dlperf.core.wire_records import ProbeAnswer
from pytest_dlperf.core.writable import last_lines, log_remark
from pytest_dlperf.launch.base import behind
from pytest_dlperf.launch.process.execute import execute
from pytest_dlperf.launch.process.left_over import RUN_VARIABLE
from pytest_dlperf.launch.remote.sent_to_hosts import copy_package

#: The first Python that the worker runs on.
_PYTHON: Final = (3, 10)


class _Kept(ProbeAnswer, total=False):
    """An answer as it is kept for the session."""

    #: Why there is no answer, or one that ranks cannot use.
    error: str


class Probes:
    """The probes of one session; their answers are files, which all its processes share."""

    def __init__(self, *, place: Place, folder: Path, package_folder: Path) -> None:
        self._place = place
        self._folder = folder
        self._package_folder = package_folder

    def facts(self, framework: str, *, timeout_s: float) -> ProbeAnswer:
        """Return the answer of the framework's probe, which is launched once a session.

        Raises ``CaseError`` if it failed, with the last lines of its output.
        """
        path = runtime_folder.folder() / "probe.lock"
        with contextlib.ExitStack() as held:
            with runtime_folder.naming(path):
                held.enter_context(FileLock(path))
            answer = self._read(framework)
            if answer is None:
                answer = self._probe(framework, timeout_s)
                self._answer(framework).write_text(json.dumps(answer), encoding="utf-8")
        if "error" in answer:
            raise CaseError(answer["error"])
        return answer

    def kept_answer(self, framework: str) -> ProbeAnswer:
        """Return the answer of a probe of this session; empty if there is none."""
        answer = self._read(framework)
        return ProbeAnswer() if answer is None or "error" in answer else answer

    def _answer(self, framework: str) -> Path:
        return self._folder / f"probe-{framework}.json"

    def _read(self, framework: str) -> _Kept | None:
        path = self._answer(framework)
        if not path.exists():
            return None
        answer: _Kept = json.loads(path.read_text(encoding="utf-8"))
        return answer

    def _probe(self, framework: str, timeout_s: float) -> _Kept:
        copy_package(self._package_folder)
        run = execute(self.plan(framework, timeout_s))
        output = Path(run.log).read_text(encoding="utf-8", errors="replace")
        for line in output.splitlines():
            if line.startswith(PROBE_MARK):
                try:
                    answer: _Kept = json.loads(line.removeprefix(PROBE_MARK))
                except ValueError:
                    continue  # cut off: the launch failed while it wrote
                return _checked(answer, self._place)
        return {
            "error": f"the probe of {framework} {self._place.words} failed: {_end(run)}.\n"
            f"{log_remark(run.log, last_lines(output))}"
        }

    def plan(self, framework: str, timeout_s: float) -> LaunchPlan:
        """Return the launch plan of a probe."""
        workdir = self._folder / f"probe-{framework}"
        argv, env = behind(
            self._place.prefix,
            (
                self._place.python,
                "-m",
                "pytest_dlperf.worker.probe",
                f"--framework={framework}",
            ),
            {"PYTHONPATH": str(self._package_folder), RUN_VARIABLE: str(workdir)},
            keep=RUN_VARIABLE,
        )
        return LaunchPlan(
            case_id=f"probe-{framework}",
            argv=argv,
            env=env,
            workdir=str(workdir),
            timeout_s=timeout_s,
        )


def _checked(answer: _Kept, place: Place) -> _Kept:
    version = tuple(int(part) for part in answer["python"].split(".")[:2])
    if version < _PYTHON:
        return {
            "error": f"Python {answer['python']} {place.words} is too old: ranks need "
            f"{_PYTHON[0]}.{_PYTHON[1]} or newer; name another one there with --dlperf-python"
        }
    if answer["problem"]:
        return {
            "error": f"{answer['framework']} {place.words} cannot be imported: {answer['problem']}"
        }
    return answer


def _end(run: Run) -> str:
    if run.timed_out:
        return f"timed out after {run.plan.timeout_s:g} s"
    if run.exit_code is None:
        return f"it could not be started ({run.end.detail})"
    return f"exit code {run.exit_code}, and no answer"
