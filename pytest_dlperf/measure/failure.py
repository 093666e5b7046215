"""Says why a run gave no measurement, and which rank is to blame."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.measure.records import read_progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.run import Run
    from pytest_dlperf.measure.records import RankRecords

_LAST_LINES = 12
#: What ranks say when one that they wait for is gone (gloo, NCCL, the store, MPI, Horovod,
#: TensorFlow's collectives).
_ANOTHER_IS_GONE = re.compile(
    r"(?i)gloo|nccl|process ?group|peer|connection|broken pipe|socket|timed? ?out|store"
    r"|horovod has been shut down|collective|unavailable|cancell?ed"
)


def failure_of(case: Case, run: Run, records: Sequence[RankRecords]) -> CaseError:
    """Return the error of a run that did not train to its end: cause, log, last lines."""
    text = f"{case.id}: {_cause(case, run, records)}.\n"
    culprits, log = _culprits(records), last_lines(Path(run.log))
    if culprits and culprits[0].get("traceback"):
        words = _last(str(culprits[0]["traceback"]))
        # Mostly the log ends with it, and once is enough.
        if words.rpartition("\n")[2].strip() not in log:
            text += f"Rank {culprits[0]['rank']}'s traceback ends:\n{words}\n"
    return CaseError(f"{text}Log: {run.log}, its last lines:\n{log}")


def last_lines(log: Path, count: int = _LAST_LINES) -> str:
    """Return the last lines of ``log``, indented; reads its end only."""
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 65536))
            text = file.read().decode("utf-8", errors="replace")
    except OSError as error:
        return f"    (cannot be read: {error.strerror})"
    return _last(text, count)


def _last(text: str, count: int = _LAST_LINES) -> str:
    lines = [line[:400] for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines[-count:]) or "    (it is empty)"


def _cause(case: Case, run: Run, records: Sequence[RankRecords]) -> str:
    if run.exit_code is None and run.end.startswith("not-started"):
        return f"the launcher could not be started ({run.end.partition(': ')[2]})"
    failures = _failures(records)
    silent = _silent(case, records)
    culprits = _culprits(records) or (() if silent else failures)
    if culprits:
        return f"rank {culprits[0]['rank']}: {culprits[0]['message']}"
    stopped = _stopped(case, run, records, silent)
    who = "the program" if case.command else "the launcher"
    if run.timed_out:
        return f"timed out after {run.plan.timeout_s:g} s; {stopped}"
    if run.end.startswith("supervisor-died"):
        return f"the supervisor of the run was killed ({run.end.partition(': ')[2]}); {stopped}"
    if run.exit_code == 0:
        return f"{who} ended with exit code 0, but the training did not end; {stopped}"
    if run.exit_code is not None and run.exit_code < 0:
        return f"{who} was killed by signal {-run.exit_code}; {stopped}"
    others = (
        f" (rank {failures[0]['rank']} then saw: {failures[0]['message']})" if failures else ""
    )
    return f"{who} ended with exit code {run.exit_code}; {stopped}{others}"


def _culprits(records: Sequence[RankRecords]) -> list[Mapping[str, Any]]:
    """Return the failures that are a rank's own: what a check found, then exceptions.

    Without those that say that another rank, which did not speak, is gone.
    """
    failures = _failures(records)
    found = [f for f in failures if f["code"] != "exception"]
    own = [f for f in failures if not _ANOTHER_IS_GONE.search(str(f["message"]))]
    return found or own


def _failures(records: Sequence[RankRecords]) -> list[Mapping[str, Any]]:
    found = [r.by_kind["failure"] for r in records if "failure" in r.by_kind]
    return sorted(found, key=lambda failure: failure["time"])


def _silent(case: Case, records: Sequence[RankRecords]) -> list[int]:
    """Return the ranks that neither ended nor said why not: killed, or hanging."""
    spoke = {r.rank for r in records if "end" in r.by_kind or "failure" in r.by_kind}
    return [rank for rank in range(case.world_size) if rank not in spoke]


def _stopped(case: Case, run: Run, records: Sequence[RankRecords], silent: Sequence[int]) -> str:
    """Tell where the ranks stopped; the silent one that is furthest behind comes first."""
    progress = {p.rank: p.iterations for p in read_progress(Path(run.plan.records))}
    started = {r.rank for r in records}
    if not started:
        return "what it did stands in its log" if case.command else "no rank has started"
    total = case.protocol.iterations
    if len(started) == case.world_size and all("end" in r.by_kind for r in records):
        return f"every rank had trained its {total} iterations before"

    def place(rank: int) -> str:
        if rank not in started:
            return f"rank {rank} never started"
        iterations = progress.get(rank, -1)
        where = "while being built" if iterations < 0 else f"at iteration {iterations} of {total}"
        why = ", without a word: it was killed, or it hangs" if rank in silent else ""
        return f"rank {rank} stopped {where}{why}"

    ranks = sorted(range(case.world_size), key=lambda r: (r not in silent, progress.get(r, -2)))
    return "; ".join(place(rank) for rank in ranks[:4])
