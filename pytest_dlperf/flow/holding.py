"""Holds hosts while a case measures: their leases, and then GPUs that nobody else uses."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pytest_dlperf.launch.process.lease import host_lease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_dlperf.core.case import Case
    from pytest_dlperf.flow.busy_gpus import GpuUse
    from pytest_dlperf.flow.nodes import Nodes
    from pytest_dlperf.flow.watcher import Watcher


@contextlib.contextmanager
def hold_host(case: Case, watcher: Watcher, gpu_use: GpuUse) -> Iterator[int]:
    """Hold this host for ``case``; yield the descriptor of its lease.

    Waits without bound for other sessions, and for foreign processes on the case's GPUs as
    ``gpu_use`` says. Raises ``CaseError`` if they stay, and ``BudgetSpentError`` where no time is
    left.
    """

    def held_by(who: str) -> None:
        watcher.tell(case, f"waiting for this host, held by {who}")

    with host_lease(case.id, on_wait=held_by) as lease:
        gpu_use.await_others(case, lambda what: watcher.tell(case, what))
        yield lease


@contextlib.contextmanager
def hold_hosts(
    case: Case, nodes: Nodes, watcher: Watcher, *, shared: bool
) -> Iterator[int | None]:
    """Hold every node of ``case``; yield the descriptor of this host's lease, if it is one.

    ``shared``: no leases are taken, and the nodes only made ready.
    """

    def held_by(who: str) -> None:
        watcher.tell(case, f"waiting for a node, held by {who}")

    with nodes.lease(case, leases=not shared, on_wait=held_by) as lease:
        yield lease
