"""Reads what a trace left: the record of a cost, or why there is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.codec import DecodeError
from pytest_dlperf.core.cost_record import checked_cost
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import Run
from pytest_dlperf.core.wire_cost import COST_PROGRESS, COST_RECORD, CostRecord
from pytest_dlperf.core.writable import writable_values

#: Characters of the output's end in an error.
_END: Final = 3000
_PROGRESS: Final = 200


def cost_of(run: Run, case_id: str) -> CostRecord:
    """Return the cost that a trace wrote; raise ``CaseError`` that says why there is none."""
    folder = Path(run.plan.records)
    if not (folder / COST_RECORD).exists():
        raise _no_record(run, case_id)
    return cost_in(folder, case_id)


def cost_in(folder: Path, case_id: str) -> CostRecord:
    """Return the cost that is in the folder of a trace; raise ``CaseError`` if it is none."""
    path = folder / COST_RECORD
    try:
        values: Any = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CaseError(f"{path} cannot be read: {error}", subject=case_id) from error
    try:
        record = checked_cost(writable_values(values))
    except DecodeError as error:
        raise CaseError(
            f"{path} is not a cost of this version: {error}",
            subject=case_id,
            remedy="install one version of pytest-dlperf where pytest and the trace run",
        ) from error
    if "problem" in record:
        place = record.get("place")
        where = "" if not place or place in record["problem"] else f" ({place})"
        raise CaseError(f"it cannot be traced: {record['problem']}{where}", subject=case_id)
    return record


def trace_progress(folder: Path) -> str:
    """Return the words of a trace on how far it has come; empty before the first."""
    try:
        text = (folder / COST_PROGRESS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text.partition("\n")[0][:_PROGRESS]


def _no_record(run: Run, case_id: str) -> CaseError:
    if run.timed_out:
        progress = trace_progress(Path(run.plan.records))
        where = f" at {progress}" if progress else ""
        return CaseError(
            f"its trace was ended after {run.plan.timeout_s:g} s{where}",
            subject=case_id,
            remedy="allow it more with --dlperf-timeout, or timeout_s of the marker; "
            f"its output is in {run.log}",
        )
    if run.oom_kills:
        return CaseError(
            "its trace ran out of memory, and the kernel ended it",
            subject=case_id,
            remedy="give it more memory: a trace needs some gigabytes",
        )
    try:
        output = Path(run.log).read_text(encoding="utf-8", errors="replace")[-_END:]
    except OSError:
        output = ""
    ended = (
        run.end.message or str(run.end.reason)
        if run.exit_code is None
        else f"exit status {run.exit_code}"
    )
    return CaseError(
        f"its trace wrote no cost ({ended}); see {run.log}", subject=case_id, remarks=output
    )
