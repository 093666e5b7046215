"""Finds why a run gave no measurement, and which rank is to blame: the one that stopped first."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import EndReason, Run
from pytest_dlperf.core.wire import rank_of_file
from pytest_dlperf.core.wire_records import FailureRecord
from pytest_dlperf.core.writable import line_begin
from pytest_dlperf.measure.exhausted import (
    full_disk,
    is_for_memory,
    killed_for_memory,
    on_device,
    out_of_memory,
)
from pytest_dlperf.measure.missing_module import missing_module
from pytest_dlperf.measure.records import Progress, RankRecords, files_of_ranks, read_progress

#: What faulthandler writes: a head for each thread, then its calls, the innermost first.
_THREAD: Final = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+)")
_CALL: Final = re.compile(r'  File "(.*)", line (\d+) in (.+)')
_CRASH: Final = re.compile(r"Fatal Python error: (.+)")
#: Files of frameworks in which a rank waits for the others. The all-reduce of a wrapped model is
#: waited for within the backward pass, which the stack of Python does not look into. Who waits for
#: its own GPU waits for a collective there, or for its own work: the iteration says which.
_WAITS: Final = re.compile(
    r"torch/(?:distributed|autograd|nn/parallel|cuda|amp)/|horovod/"
    r"|paddle/(?:distributed|fluid/distributed|device)/|paddle/(?:base|fluid)/dygraph/"
    r"|tensorflow/python/(?:distribute|eager)/"
    r"|jax/_src/(?:array|api|distributed|pjit|interpreters/pxla)\.py"
)
#: Methods in C that wait for a GPU. The stack of Python ends in the line that calls them.
_READS_DEVICE: Final = re.compile(r"\.(?:item|tolist|cpu|numpy|synchronize)\(")
#: Files in which JAX compiles, below those in which it waits: who compiles waits for nobody.
_COMPILES: Final = re.compile(r"jax/_src/(?:compiler|interpreters/(?:mlir|partial_eval))\.py")
#: Below these a file is a library's, not the user's.
_LIBRARY: Final = re.compile(
    r"^<|/(?:site|dist)-packages/|/lib/python3\.\d+/|pytest_dlperf/worker/"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """The calls of a rank's main thread when it was ended, or crashed."""

    #: File, line and function, the innermost first.
    calls: tuple[tuple[str, int, str], ...]
    #: Why it crashed; empty if it was ended.
    crash: str = ""

    @property
    def waits(self) -> bool:
        """Whether its calls were in code where ranks wait for each other."""
        files = [file for file, _, _ in self._until_own()]
        return any(map(_WAITS.search, files)) and not any(map(_COMPILES.search, files))

    @property
    def place(self) -> str:
        """Words for its innermost call, and for the user's own call that led to it."""
        if not self.calls:
            return "outside Python"
        innermost, own = self.calls[0], self._own()
        text = _stack_words(innermost)
        return (
            text if own is None or own == innermost else f"{text}, called from {_stack_words(own)}"
        )

    def device_read(self, until_s: float) -> str:
        """Return the source of the innermost call, if it is the user's and waits for a GPU.

        Else an empty text, also where this host does not have the source as it was at ``until_s``
        (since the epoch).
        """
        if not self.calls or self._own() != self.calls[0]:
            return ""
        file, number, _ = self.calls[0]
        try:
            if Path(file).stat().st_mtime > until_s:
                return ""
            lines = Path(file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""  # of another host, or a container's
        line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        return line if _READS_DEVICE.search(line) else ""

    def _own(self) -> tuple[str, int, str] | None:
        return next((call for call in self.calls if not _LIBRARY.search(call[0])), None)

    def _until_own(self) -> tuple[tuple[str, int, str], ...]:
        own = self._own()
        return self.calls if own is None else self.calls[: self.calls.index(own)]


def read_stacks(folder: Path) -> dict[int, Stack]:
    """Return the stacks of the ranks that got SIGTERM or crashed, by rank."""
    found = {}
    for path in files_of_ranks(folder, "stack"):
        stack = _parse(path.read_text(encoding="utf-8", errors="replace"))
        if stack is not None:
            found[rank_of_file(path.name)] = stack
    return found


def _parse(text: str) -> Stack | None:
    head, _, rest = text.partition("\n")
    crash = _CRASH.search(rest)
    main = int(head.split()[-1], 16) if head.startswith("main ") else None
    calls: list[tuple[str, int, str]] = []
    threads, is_main = 0, False
    for line in rest.splitlines():
        if thread := _THREAD.match(line):
            threads += 1
            # A second signal interrupts the first stack; the last stack is whole.
            is_main = int(thread[1], 16) == main
            calls = [] if is_main else calls
        elif is_main and (call := _CALL.match(line)):
            calls.append((call[1], int(call[2]), call[3]))
    if not threads and crash is None:
        return None
    return Stack(calls=tuple(calls), crash=crash[1] if crash else "")


def _stack_words(call: tuple[str, int, str]) -> str:
    file, line, function = call
    return f"{function} ({file}, line {line})"


_MOST_RANKS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rank:
    """What is known of one rank at the end of its run."""

    rank: int
    started: bool
    #: Whether it wrote its end or its failure.
    spoke: bool
    progress: Progress | None
    stack: Stack | None
    #: Whether its process lived when the launch was ended; None if that is unknown.
    alive: bool | None
    #: The line of the user's program that waits for the GPU; empty if it does not.
    device_read: str = ""

    @property
    def iterations(self) -> int:
        return self.progress.iterations if self.progress else -1

    @property
    def order(self) -> tuple[bool, bool, int, float]:
        """The key that sorts ranks by blame, the culprit first.

        A rank that waited for others stopped after them. So did one that crashed while it
        waited: some frameworks crash when a connection breaks. Who waits for its GPU may wait for
        a collective of the others there.
        """
        waited = bool(self.device_read) or (self.stack is not None and self.stack.waits)
        at_s = self.progress.at_s if self.progress else 0.0
        return self.spoke, waited, self.iterations if self.started else -2, at_s


def where_stopped(case: Case, run: Run, records: Sequence[RankRecords]) -> str:
    """Return words for where the ranks stopped, the rank that stopped first before others."""
    by_rank = {r.rank: r for r in records}
    if not by_rank:
        return "its log shows what it did" if case.command else "no rank has started"
    total = case.protocol.iterations
    if len(by_rank) == case.ranks and all(r.wrote("end") for r in records):
        return f"every rank had trained its {total} iterations before"
    progress = {p.rank: p for p in read_progress(Path(run.plan.records))}
    stacks = read_stacks(Path(run.plan.records))
    ranks = [
        _Rank(
            rank=rank,
            started=rank in by_rank,
            spoke=rank in by_rank and _spoke(by_rank[rank]),
            progress=progress.get(rank),
            stack=stacks.get(rank),
            alive=_lived(by_rank[rank], run) if rank in by_rank else None,
            device_read=stacks[rank].device_read(run.started_at_s)
            if rank in stacks and case.layout.device == "gpu"
            else "",
        )
        for rank in range(case.ranks)
    ]
    ranks.sort(key=lambda one: one.order)
    return "; ".join(_words(one, case, run) for one in ranks[:_MOST_RANKS])


def silent_ranks(case: Case, records: Sequence[RankRecords]) -> list[int]:
    """Return the ranks that wrote neither end nor failure: they were killed, or hang."""
    spoke = {r.rank for r in records if _spoke(r)}
    return [rank for rank in range(case.ranks) if rank not in spoke]


def _spoke(records: RankRecords) -> bool:
    return records.wrote("end") or records.wrote("failure")


def _lived(records: RankRecords, run: Run) -> bool | None:
    """Return whether the rank's process lived at the end; None for one of another host."""
    start = records.by_kind.get("start")
    if start is None:
        return None
    node, namespace = start["node"], start.get("pid_namespace")
    there = run.alive_on.get(f"{node}, {namespace}")
    if there is not None:
        return start["pid"] in there
    if run.alive is None or (node, namespace) != (socket.gethostname(), pid_namespace()):
        return None
    return start["pid"] in run.alive


# A rank and a far end have copies, in ``worker/host.py`` and ``launch/remote/far_side.py``, since
# all that the three may import is core, which reads no files. What they return is compared.
def pid_namespace() -> str:
    """Return the name of the PID namespace of this process; empty off Linux."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""  # not Linux


def _words(one: _Rank, case: Case, run: Run) -> str:
    if not one.started:
        return f"rank {one.rank} never started"
    where = f"at iteration {one.iterations} of {case.protocol.iterations}"
    if one.iterations < 0:
        where = "while being built"
    why = "" if one.spoke else f", without a word: {_why(one, case, run)}"
    return f"rank {one.rank} stopped {where}{why}"


def _why(one: _Rank, case: Case, run: Run) -> str:
    stack = one.stack
    if stack is not None and stack.crash:
        return f"it crashed ({stack.crash}) in {stack.place}"
    if stack is not None and one.device_read:
        return f"it waited for its GPU in {stack.place}: {one.device_read}{_since(one, run)}"
    if stack is not None and stack.waits and case.ranks > 1:
        return f"it waited for the others in {stack.place}{_since(one, run)}"
    if stack is not None:
        return f"it was in {stack.place}{_since(one, run)}"
    if one.alive and run.end.is_by_itself:
        return "it kept running, and was killed"
    if one.alive:
        return f"it hung, and ignored SIGTERM{_since(one, run)}"
    if run.oom_kills:
        return killed_for_memory(case)
    if one.alive is False:
        return "its process was gone: it was killed, or it left early"
    return "it was killed, or it hangs"


def _since(one: _Rank, run: Run) -> str:
    if one.progress is None:
        return ""
    seconds = max(0.0, run.started_at_s + run.elapsed_s - one.progress.at_s)
    return f", {seconds:.0f} s after its {'last iteration' if one.iterations > 0 else 'start'}"


_LAST_LINES = 12
#: Errors of ranks that waited for a rank which is gone (gloo, NCCL, the store, MPI, Horovod,
#: TensorFlow's collectives).
_ANOTHER_IS_GONE = re.compile(
    r"(?i)gloo|nccl|process ?group|peer|connection|broken pipe|socket|timed? ?out|\bstore\b"
    r"|horovod has been shut down|collective|unavailable|cancell?ed"
)


def failure_of(case: Case, run: Run, records: Sequence[RankRecords]) -> CaseError:
    """Return the error of a run that did not train to its end: cause, log, last lines."""
    remarks = ""
    culprits, log = _culprits(records), last_lines(Path(run.log))
    if culprits and culprits[0].record.get("traceback"):
        words = _last(culprits[0].record["traceback"])
        # Mostly the log ends with it, and once is enough.
        if words.rpartition("\n")[2].strip() not in log:
            remarks = f"Rank {culprits[0].rank}'s traceback ends:\n{words}\n"
    return CaseError(
        f"{cause_of(case, run, records)}.",
        subject=case.id,
        remarks=f"{remarks}Log: {run.log}, its last lines:\n{log}",
    )


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
    lines = [line_begin(line, 400) for line in text.splitlines() if line.strip()]
    return "\n".join(f"    {line}" for line in lines[-count:]) or "    (it is empty)"


def cause_of(case: Case, run: Run, records: Sequence[RankRecords]) -> str:
    """Return how a run that did not come to its end was ended, and by which rank."""
    if run.exit_code is None and run.end.reason is EndReason.NOT_STARTED:
        return f"the launcher could not be started ({run.end.detail})"
    nodes = run.end.nodes
    if nodes and not records:
        return nodes
    failures = _failures(records)
    if words := full_disk(run, [failure.record["message"] for failure in failures]):
        return words
    culprits = _culprits(records) or (() if silent_ranks(case, records) else failures)
    if culprits:
        return _failed(case, run, culprits[0], records)
    stopped = where_stopped(case, run, records)
    if nodes:
        return f"{nodes}; {stopped}"
    if run.exit_code is None or run.timed_out:
        ended = _ended(case, run)
    else:
        ended = _exited(case, run, run.exit_code)
    others = ""
    if run.exit_code is not None and run.exit_code > 0 and failures:
        others = f" (rank {failures[0].rank} then saw: {failures[0].record['message']})"
    return f"{ended}; {stopped}{others}"


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
        log = last_lines(Path(run.log))
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

    Without those that report only that another rank, which wrote no failure, is gone.
    """
    failures = _failures(records)
    found = [failure for failure in failures if failure.record["code"] != "exception"]
    return found or [f for f in failures if _is_own(f.record["message"])]


def _is_own(message: str) -> bool:
    return is_for_memory(message) or not _ANOTHER_IS_GONE.search(message)


def _failures(records: Sequence[RankRecords]) -> list[_Failure]:
    """Return the failures of all ranks, the earliest first."""
    found = [_Failure(r.rank, r.by_kind["failure"]) for r in records if "failure" in r.by_kind]
    return sorted(found, key=lambda failure: failure.record["time"])
