"""Whether the marks of a user's own program are a measurement: its rules, in sentences."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.measure.failure import last_lines
from pytest_dlperf.measure.records import process_of, read_conflicts, read_progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.core.run import Run
    from pytest_dlperf.measure.records import RankRecords

#: Shorter steps trained nothing: a mark around nothing takes 2 microseconds, the forward,
#: backward and update of a single weight about 100 (PyTorch on a CPU).
_NO_ROOM_S: Final = 20e-6


def check_program(case: Case, run: Run, records: Sequence[RankRecords]) -> None:
    """Raise ``CaseError`` if what a program marked, which ended with 0, cannot be a training."""
    _check_ranks(case, run, records)
    _check_length(case, run, records)
    _check_trained(case, records)


def _check_ranks(case: Case, run: Run, records: Sequence[RankRecords]) -> None:
    by_rank = {rank.rank: rank for rank in records}
    for rank, others in read_conflicts(Path(run.plan.records)).items():
        known = [process_of(by_rank[rank].by_kind.get("start", {}))] if rank in by_rank else []
        processes = ", ".join([*known, *others])
        raise CaseError(
            f"{case.id}: {len(known) + len(others)} processes marked as rank {rank} ({processes});"
            " give each its own RANK in the environment, or mark in one of them only"
        )
    beyond = [str(rank) for rank in by_rank if rank >= case.world_size]
    if beyond:
        raise CaseError(
            f"{case.id}: the program marked as rank {', '.join(beyond)}, and {case.layout} has "
            f"ranks 0 to {case.world_size - 1} only; start as many as the layout says "
            "({world_size} in a word of the command is that number)"
        )


def _check_length(case: Case, run: Run, records: Sequence[RankRecords]) -> None:
    """Raise if the program ended in good order, before it had marked enough steps."""
    if all("end" in rank.by_kind or "failure" in rank.by_kind for rank in records):
        return
    done = min(progress.iterations for progress in read_progress(Path(run.plan.records)))
    raise CaseError(
        f"{case.id}: the program ended after {done} marked steps, and {case.protocol.iterations} "
        "are measured; let it train longer ({iterations} in a word of the command is that "
        f"number), or lower iterations.\nLog: {run.log}, its last lines:\n"
        f"{last_lines(Path(run.log))}"
    )


def _check_trained(case: Case, records: Sequence[RankRecords]) -> None:
    """Raise if nothing can have been trained; a rank that told a loss is believed."""
    if any("end" not in r.by_kind or r.by_kind["loss"]["values"] for r in records):
        return
    step_s = max(_step_seconds(case, rank) for rank in records)
    if step_s < _NO_ROOM_S:
        why = f"a marked step lasts {step_s * 1e6:.2g} microseconds"
    elif not any(rank.by_kind["libraries"]["imported"] for rank in records):
        why = "no process that marks has imported a framework, nor numpy"
    else:
        return
    raise CaseError(
        f"{case.id}: the program trained nothing: {why}, and no step told a loss; put the marks "
        "around the training, and if they are there, tell its loss: with step() as s: …; "
        "s.loss(loss)"
    )


def _step_seconds(case: Case, records: RankRecords) -> float:
    first, end = case.protocol.window
    steps = [s.seconds for s in records.spans if first <= s.first_step < end]
    # A GPU is waited for at the window's end only: all its time may be in the last step.
    on_gpu = records.by_kind["memory"]["kind"] == "gpu-allocated"
    return statistics.fmean(steps) if on_gpu else statistics.median(steps)
