"""Which rank stopped first, and where: the healthy one that waits for it is not blamed."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_dlperf.measure.exhausted import killed_for_memory
from pytest_dlperf.measure.records import read_progress
from pytest_dlperf.measure.stacks import read_stacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.run import Run
    from pytest_dlperf.measure.records import Progress, RankRecords
    from pytest_dlperf.measure.stacks import Stack

_MOST_RANKS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rank:
    """What is known of one rank at the end of its run."""

    rank: int
    started: bool
    #: It ended, or said why not.
    spoke: bool
    progress: Progress | None
    stack: Stack | None
    #: Whether its process lived when the launch was ended; None if nobody can tell.
    alive: bool | None

    @property
    def iterations(self) -> int:
        return self.progress.iterations if self.progress else -1

    @property
    def order(self) -> tuple[bool, bool, int, float]:
        """Who is to blame comes first: who waited for others stopped after them.

        Also who crashed while it waited: a connection that breaks ends some frameworks so.
        """
        waited = self.stack is not None and self.stack.waits
        at_s = self.progress.at_s if self.progress else 0.0
        return self.spoke, waited, self.iterations if self.started else -2, at_s


def where_stopped(case: Case, run: Run, records: Sequence[RankRecords]) -> str:
    """Tell where the ranks stopped, who stopped first before the others; in words."""
    by_rank = {r.rank: r for r in records}
    if not by_rank:
        return "what it did stands in its log" if case.command else "no rank has started"
    total = case.protocol.iterations
    if len(by_rank) == case.world_size and all("end" in r.by_kind for r in records):
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
        )
        for rank in range(case.world_size)
    ]
    ranks.sort(key=lambda one: one.order)
    return "; ".join(_words(one, case, run) for one in ranks[:_MOST_RANKS])


def silent_ranks(case: Case, records: Sequence[RankRecords]) -> list[int]:
    """Return the ranks that neither ended nor said why not: killed, or hanging."""
    spoke = {r.rank for r in records if _spoke(r)}
    return [rank for rank in range(case.world_size) if rank not in spoke]


def _spoke(records: RankRecords) -> bool:
    return "end" in records.by_kind or "failure" in records.by_kind


def _lived(records: RankRecords, run: Run) -> bool | None:
    """Return whether the rank's process lived at the end; None for one of another host."""
    start = records.by_kind.get("start", {})
    there = run.alive_on.get(f"{start.get('node')}, {start.get('pid_namespace')}")
    if there is not None:
        return start["pid"] in there
    here = (socket.gethostname(), pid_namespace())
    if run.alive is None or (start.get("node"), start.get("pid_namespace")) != here:
        return None
    return start["pid"] in run.alive


def pid_namespace() -> str:
    """Return what tells process numbers of this container from those of others."""
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
    if stack is not None and stack.waits and case.world_size > 1:
        return f"it waited for the others in {stack.place}{_since(one, run)}"
    if stack is not None:
        return f"it stood in {stack.place}{_since(one, run)}"
    if one.alive and run.end == "exited":
        return "it lived on, and was killed"
    if one.alive:
        return f"it stood still, and did not heed SIGTERM{_since(one, run)}"
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
