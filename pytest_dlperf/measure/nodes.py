"""Waits for the records of nodes that were started by hand; names those whose are missing."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.run import Run
from pytest_dlperf.measure.failure import failure_of
from pytest_dlperf.measure.records import read_records

#: A network file system may show another node's files this much later (NFS: up to 60 s for a
#: folder's entries, by its default ``acdirmax``).
_SEEN_AFTER_S: Final = 60.0
_POLL_S: Final = 0.25


def ranks_of(case: Case, node_rank: int) -> range:
    """Return the ranks of one node."""
    per_node = case.ranks_per_node
    return range(node_rank * per_node, (node_rank + 1) * per_node)


def await_other_nodes(case: Case, run: Run, *, seen_after_s: float = _SEEN_AFTER_S) -> None:
    """Return once every rank's records are whole; they come from several nodes.

    Returns at once if this node's launch has failed. Raises ``CaseError`` for nodes that have
    written nothing within ``seen_after_s`` seconds.
    """
    if run.exit_code != 0:
        return
    deadline_s = time.monotonic() + seen_after_s
    while _spoke(run) != set(range(case.ranks)):
        if time.monotonic() > deadline_s:
            _check_seen(case, run)
            return
        time.sleep(_POLL_S)


def check_node_part(case: Case, run: Run, node_rank: int) -> None:
    """Raise ``CaseError`` unless every rank of this node trained to its end.

    A user's own program must end in good order as well.
    """
    records = read_records(Path(run.plan.records))
    ended = {r.rank for r in records if r.wrote("end")}
    failed = bool(case.command) and run.exit_code != 0
    if failed or not set(ranks_of(case, node_rank)) <= ended:
        raise failure_of(case, run, records)


def _spoke(run: Run) -> set[int]:
    records = read_records(Path(run.plan.records))
    return {r.rank for r in records if r.wrote("end") or r.wrote("failure")}


def _check_seen(case: Case, run: Run) -> None:
    seen = {r.rank for r in read_records(Path(run.plan.records))}
    missing = [n for n in range(case.layout.nodes) if not seen & set(ranks_of(case, n))]
    if missing:
        raise CaseError(
            f"this node's part ended well, but the records of {_nodes(missing)} are "
            f"not in {run.plan.records}, and a verdict needs those of all ranks; name one folder "
            "that every node sees with --dlperf-workdir=DIR, the same on each",
            subject=case.id,
        )


def _nodes(numbers: Iterable[int]) -> str:
    words = [str(number) for number in numbers]
    return f"node {words[0]}" if len(words) == 1 else f"nodes {', '.join(words)}"
