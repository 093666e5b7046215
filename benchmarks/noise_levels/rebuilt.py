"""A workload that builds another one anew, again and again within one launch.

Earlier builds stay alive, so that each lies elsewhere in memory; else the allocator would give a
new build the place of the one before. What the launch is to do comes in variables.
"""

from __future__ import annotations

import ctypes
import importlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pytest_dlperf.worker.job import Job

WORKLOAD: Final = "NOISE_WORKLOAD"
#: Iterations before the first build that counts, and of each build.
WARM_UP: Final = "NOISE_WARM_UP"
EACH: Final = "NOISE_EACH"
#: Set for ranks that stay on cores of their own, and for those without transparent huge pages.
PINNED: Final = "NOISE_PINNED"
SMALL_PAGES: Final = "NOISE_SMALL_PAGES"
#: ``PR_SET_THP_DISABLE`` of prctl(2).
_THP_DISABLE: Final = 41


def build(job: Job) -> Callable[[], Any]:
    """Return the step of the workload that ``NOISE_WORKLOAD`` names; it builds anew by itself."""
    if os.environ.get(SMALL_PAGES):
        _without_huge_pages()
    if os.environ.get(PINNED):
        _pin(job.local_rank, int(os.environ["OMP_NUM_THREADS"]))
    module, _, name = os.environ[WORKLOAD].partition(":")
    build_one = getattr(importlib.import_module(module), name)
    warm_up, each = int(os.environ[WARM_UP]), int(os.environ[EACH])
    builds = [build_one(job)]
    done = 0

    def step() -> Any:
        nonlocal done
        if done > warm_up and (done - warm_up) % each == 0:
            builds.append(build_one(job))
        done += 1
        return builds[-1]()

    return step


def _pin(local_rank: int, threads: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    own_cores = cores[local_rank * threads : (local_rank + 1) * threads]
    if len(own_cores) < threads:
        raise RuntimeError(f"rank {local_rank} has no {threads} of the {len(cores)} cores")
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), own_cores)


def _without_huge_pages() -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_THP_DISABLE, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_THP_DISABLE)")
