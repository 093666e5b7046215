"""Says where the ranks of a run stopped, the rank to blame first: the one that stopped first."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.run import Run
from pytest_dlperf.measure.exhausted import killed_for_memory
from pytest_dlperf.measure.records import Progress, RankRecords, read_progress
from pytest_dlperf.measure.stacks import Stack, read_stacks

_MOST_RANKS: Final = 4


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
    ranks.sort(key=lambda rank: rank.order)
    return "; ".join(_words(rank, case, run) for rank in ranks[:_MOST_RANKS])


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


def _words(rank: _Rank, case: Case, run: Run) -> str:
    if not rank.started:
        return f"rank {rank.rank} never started"
    where = f"at iteration {rank.iterations} of {case.protocol.iterations}"
    if rank.iterations < 0:
        where = "while being built"
    why = "" if rank.spoke else f", without a word: {_why(rank, case, run)}"
    return f"rank {rank.rank} stopped {where}{why}"


def _why(rank: _Rank, case: Case, run: Run) -> str:
    stack = rank.stack
    if stack is not None and stack.crash:
        return f"it crashed ({stack.crash}) in {stack.place}"
    if stack is not None and rank.device_read:
        return f"it waited for its GPU in {stack.place}: {rank.device_read}{_since(rank, run)}"
    if stack is not None and stack.waits and case.ranks > 1:
        return f"it waited for the others in {stack.place}{_since(rank, run)}"
    if stack is not None:
        return f"it was in {stack.place}{_since(rank, run)}"
    if rank.alive and run.end.is_by_itself:
        return "it kept running, and was killed"
    if rank.alive:
        return f"it hung, and ignored SIGTERM{_since(rank, run)}"
    if run.oom_kills:
        return killed_for_memory(case)
    if rank.alive is False:
        return "its process was gone: it was killed, or it left early"
    return "it was killed, or it hangs"


def _since(rank: _Rank, run: Run) -> str:
    if rank.progress is None:
        return ""
    seconds = max(0.0, run.started_at_s + run.elapsed_s - rank.progress.at_s)
    return f", {seconds:.0f} s after its {'last iteration' if rank.iterations > 0 else 'start'}"
