"""Finds why a run gave no measurement, and makes the error that says so."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import EndReason, Run
from pytest_dlperf.core.wire_records import FailureRecord
from pytest_dlperf.core.writable import last_lines, log_remark
from pytest_dlperf.measure.exhausted import (
    full_disk,
    is_for_memory,
    killed_for_memory,
    on_device,
    out_of_memory,
)
from pytest_dlperf.measure.missing_module import missing_module
from pytest_dlperf.measure.records import RankRecords
from pytest_dlperf.measure.stopped import silent_ranks, where_stopped

#: Errors of ranks that waited for a rank which is gone (gloo, NCCL, the store, MPI, Horovod,
#: TensorFlow's collectives).
_ANOTHER_IS_GONE = re.compile(
    r"(?i)gloo|nccl|process ?group|peer|connection|broken pipe|socket|timed? ?out|\bstore\b"
    r"|horovod has been shut down|collective|unavailable|cancell?ed"
)


def failure_of(case: Case, run: Run, records: Sequence[RankRecords]) -> CaseError:
    """Return the error of a run that did not train to its end: cause, log, last lines."""
    remarks = ""
    culprits, log = _culprits(records), log_end(Path(run.log))
    if culprits and culprits[0].record.get("traceback"):
        words = last_lines(culprits[0].record["traceback"])
        # Mostly the log ends with it, and once is enough.
        if words.rpartition("\n")[2].strip() not in log:
            remarks = f"Rank {culprits[0].rank}'s traceback ends:\n{words}\n"
    return CaseError(
        f"{cause_of(case, run, records)}.",
        subject=case.id,
        remarks=f"{remarks}{log_remark(run.log, log)}",
    )


def log_end(log: Path) -> str:
    """Return the last lines of ``log``, indented; reads its end only."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 65536))
            text = file.read().decode("utf-8", errors="replace")
    except OSError as error:
        return f"    (cannot be read: {error.strerror})"
    return last_lines(text, nothing="(it is empty)")


def cause_of(case: Case, run: Run, records: Sequence[RankRecords]) -> str:
    """Return how a run that did not come to its end was ended, and by which rank."""
    if run.exit_code is None and run.end.reason is EndReason.NOT_STARTED:
        return f"the launcher could not be started ({run.end.detail})"
    if run.end.reason is EndReason.NO_TURNS:
        return f"its ranks cannot be given their turns, which takes FIFOs ({run.end.detail})"
    nodes = run.end.nodes
    if nodes and not records:
        return nodes
    failures = _failures(records)
    if words := full_disk(run, [failure.record["message"] for failure in failures]):
        return words
    culprits = _culprits(records) or (() if nodes or silent_ranks(case, records) else failures)
    if culprits:
        return _failed(case, run, culprits[0], records)
    stopped = where_stopped(case, run, records)
    if nodes:
        return f"{nodes}; {stopped}"
    if run.exit_code is None or run.timed_out:
        ended = _ended(case, run)
    else:
        ended = _exited(case, run, run.exit_code)
    first_failure = ""
    if run.exit_code is not None and run.exit_code > 0 and failures:
        first_failure = f" (rank {failures[0].rank} then saw: {failures[0].record['message']})"
    return f"{ended}; {stopped}{first_failure}"


def _ended(case: Case, run: Run) -> str:
    """Return how a launch was ended that did not end by itself."""
    words = {
        EndReason.LOGS_TOO_LONG: "its ranks print without end, and were ended for it; print less",
        EndReason.SUPERVISOR_DIED: "the supervisor of the run was killed",
        EndReason.SUPERVISOR_STOPPED: "the supervisor of the run did not go on a minute after its "
        f"timeout of {run.plan.timeout_s:g} s, and was ended",
        EndReason.REPORT_NOT_WRITTEN: "how the run ended could not be written",
    }
    from_outside = f"{_who(case)} was ended from outside ({run.end.reason.value})"
    how = words.get(run.end.reason, from_outside)
    if run.timed_out:
        how = f"timed out after {run.plan.timeout_s:g} s"
    return f"{how} ({run.end.detail})" if run.end.detail else how


def _exited(case: Case, run: Run, exit_code: int) -> str:
    """Return how a launcher ended by itself."""
    who = _who(case)
    if exit_code == 0:
        return f"{who} ended with exit code 0, but the training did not end"
    if exit_code < 0:
        killed = f"; {killed_for_memory(case)}" if run.oom_kills and exit_code == -9 else ""
        return f"{who} was killed by signal {-exit_code}{killed}"
    words = ""
    if case.command:
        log = log_end(Path(run.log))
        words = out_of_memory(case, log) or missing_module(log, run.plan)
    return f"{who} ended with exit code {exit_code}{words and f': {words}'}"


def _who(case: Case) -> str:
    return "the program" if case.command else "the launcher"


def _failed(case: Case, run: Run, failure: _Failure, records: Sequence[RankRecords]) -> str:
    frameworks = {r.rank: r.by_kind.get("framework", {}) for r in records}
    device: str | None = frameworks[failure.rank].get("device")
    message = failure.record["message"]
    words = out_of_memory(case, message, device or "") or on_device(message, Path(run.log))
    return f"rank {failure.rank}: {words or message}"


class _Failure(NamedTuple):
    rank: int
    record: FailureRecord


def _culprits(records: Sequence[RankRecords]) -> list[_Failure]:
    """Return the failures that a rank caused itself: what a check found, then exceptions.

    Without those that report only that another rank, which wrote no failure, is gone, or what
    gave it its turns.
    """
    failures = [f for f in _failures(records) if f.record["code"] != "turns-ended"]
    found = [failure for failure in failures if failure.record["code"] != "exception"]
    return found or [f for f in failures if _is_own(f.record["message"])]


def _is_own(message: str) -> bool:
    return is_for_memory(message) or not _ANOTHER_IS_GONE.search(message)


def _failures(records: Sequence[RankRecords]) -> list[_Failure]:
    """Return the failures of all ranks, the earliest first."""
    found = [_Failure(r.rank, r.by_kind["failure"]) for r in records if "failure" in r.by_kind]
    return sorted(found, key=lambda failure: failure.record["time"])
