"""What is measured after the window: the share of collectives in a step, all-reduce by size.

After the checksum as well, so that steps which train nothing in earnest spoil nothing.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_dlperf.worker.frameworks.base import Framework
    from pytest_dlperf.worker.records import RecordWriter

#: Bytes of the messages, the smallest first.
SIZES: Final = (2**16, 2**20, 2**22, 2**24)
#: Seconds that all sizes together may take; a size that would not fit is left out.
_BUDGET_S: Final = 0.4
_REPETITIONS: Final = 10


def write_scaling(
    framework: Framework, step: Callable[[], Any], records: RecordWriter, folder: Path
) -> None:
    """Write the records ``collectives`` and ``all_reduce``; nothing for a single rank.

    Steps that cannot be done beyond the case's own are told as ``problem`` of the first.
    """
    if framework.job.world_size == 1:
        return
    try:
        found = framework.sample_collectives(step, folder)
    except Exception as error:  # noqa: BLE001  # the workload's own: it was asked for no more steps
        found = {"problem": f"{type(error).__name__}: {error}"}
    framework.job.feed.take_wait()
    records.write("collectives", **found)
    framework.synchronise()
    framework.barrier()
    bandwidths = all_reduce_gb_per_s(framework)
    rates = {str(size): rate for size, rate in bandwidths.items()}
    records.write("all_reduce", gb_per_s=rates, time=time.time())


def all_reduce_gb_per_s(framework: Framework) -> dict[int, float]:
    """Return the rate of an all-reduce by bytes of its message: bytes over median seconds.

    All ranks make the same choices, since those stand on means over ranks: on a slow link the
    large messages are left out.
    """
    found: dict[int, float] = {}
    left_s, expected_s = _BUDGET_S, 0.0
    for size in SIZES:
        # One that sets up, and one that counts
        if found and 2 * expected_s > left_s:
            break
        reduce = framework.all_reduce_of(size)
        first_s = framework.mean_over_ranks(_seconds(reduce))
        # Small messages leave time for the large ones
        share_s = (left_s - first_s) / 4
        count = round(max(1, min(_REPETITIONS, share_s / first_s)))
        times_s = [_seconds(reduce) for _ in range(count)]
        found[size] = size / statistics.median(times_s) / 1e9
        left_s -= first_s + framework.mean_over_ranks(sum(times_s))
        expected_s = framework.mean_over_ranks(statistics.median(times_s)) * 4
    return found


def _seconds(work: Callable[[], None]) -> float:
    begin_s = time.perf_counter()
    work()
    return time.perf_counter() - begin_s
