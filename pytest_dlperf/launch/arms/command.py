"""Run a command that prepares an arm, under the supervisor, so that it ends with the session."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import LaunchPlan, Run

#: Runs a plan to its end: ``launch/process/execute.py``.
Execute = Callable[[LaunchPlan], Run]
#: Marks the processes of the command: see ``RUN_VARIABLE`` in ``launch/process/supervisor.py``.
_RUN_VARIABLE: Final = "DLPERF_RUN"
_TIMEOUT_S: Final = 7200.0
_LAST_LINES: Final = 12


def run_command(
    argv: Sequence[str], *, cwd: Path, logs: Path, execute: Execute, failed: str
) -> None:
    """Run ``argv`` in ``cwd``; its output goes to ``output.log`` in the folder ``logs``.

    Raises ``CaseError`` that begins with ``failed`` and ends with the last lines of the log.
    """
    shutil.rmtree(logs, ignore_errors=True)  # of an attempt that failed
    run = execute(
        LaunchPlan(
            case_id=logs.name,
            argv=tuple(argv),
            env={_RUN_VARIABLE: str(logs), "PYTHONUNBUFFERED": "1"},
            workdir=str(logs),
            timeout_s=_TIMEOUT_S,
            cwd=str(cwd),
        )
    )
    if run.exit_code == 0 and not run.timed_out:
        return
    how = f"timed out after {_TIMEOUT_S:g} s" if run.timed_out else f"exit code {run.exit_code}"
    if run.exit_code is None:
        how = run.end
    text = Path(run.log).read_text(encoding="utf-8", errors="replace")
    raise CaseError(f"{failed}: {how}.\nLog: {run.log}, its last lines:\n{last_lines(text)}")


def last_lines(text: str) -> str:
    """Return the last lines of what a command printed, indented."""
    lines = [line[:400] for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines[-_LAST_LINES:]) or "    (it printed nothing)"
