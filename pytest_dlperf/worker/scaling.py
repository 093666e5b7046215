"""Samples for scaling: what collectives cost a step, and how fast an all-reduce is.

They are taken after the window, and after the checksum: their steps spoil the parameters.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.wire_records import AllReduceRecord, CollectivesRecord
from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.records import RecordWriter

#: Bytes of the messages by the kind of device, the smallest first. Links between GPUs reach
#: their rate with the largest.
SIZES: Final[Mapping[str, tuple[int, ...]]] = {
    "cpu": (2**16, 2**20, 2**22, 2**24),
    "gpu": (2**16, 2**20, 2**22, 2**24, 2**26, 2**28),
}
#: Messages after which the device is waited for once, at most: to wait for each would add 15 to
#: 30 us of the host, of which a message of 64 KiB between GPUs takes less.
_LAUNCHES: Final[Mapping[str, int]] = {"cpu": 1, "gpu": 20}
#: Seconds that all sizes together may take; a size that would not fit is left out.
_BUDGET_S: Final = 0.4
_REPETITIONS: Final = 10


def write_scaling(
    framework: Framework,
    step: Callable[[], Any],
    records: RecordWriter,
    folder: Path,
    device: str,
) -> None:
    """Write the records ``collectives`` and ``all_reduce``; nothing for a single rank.

    If the workload can do no further steps, the first of them has a ``problem``.
    """
    if framework.job.world_size == 1:
        return
    try:
        collectives = framework.sample_collectives(step, folder)
    except Exception as error:  # noqa: BLE001  # the workload's own: it was asked for no more steps
        collectives = CollectivesRecord(problem=f"{type(error).__name__}: {error}")
    framework.job.feed.take_wait()
    records.write(collectives=collectives)
    framework.synchronise()
    framework.barrier()
    bandwidths = all_reduce_gb_per_s(framework, SIZES[device], launches=_LAUNCHES[device])
    rates = {str(size): rate for size, rate in bandwidths.items()}
    records.write(all_reduce=AllReduceRecord(gb_per_s=rates, time=time.time()))


def all_reduce_gb_per_s(
    framework: Framework, sizes: Sequence[int], *, launches: int = 1
) -> dict[int, float]:
    """Return the rate of an all-reduce by bytes of its message: bytes over median seconds.

    Of up to so many ``launches`` one after the other, after which the device is waited for.

    NVIDIA's nccl-tests call this rate ``algbw``; their ``busbw`` is 2(n-1)/n of it for n ranks.

    All ranks make the same choices, since they use means over the ranks: on a slow link the
    large messages are left out.
    """
    rates: dict[int, float] = {}
    left_s, expected_s = _BUDGET_S, 0.0
    for size in sizes:
        # One that sets up, and one that counts
        if rates and 2 * expected_s > left_s:
            break
        reduce = framework.all_reduce_of(size)
        first_s = framework.mean_over_ranks(_seconds(framework, reduce, 1))
        # Small messages leave time for the large ones
        share_s = (left_s - first_s) / 4
        at_once = round(max(1, min(launches, share_s / first_s / 2)))
        count = round(max(1, min(_REPETITIONS, share_s / first_s / at_once)))
        times_s = [_seconds(framework, reduce, at_once) for _ in range(count)]
        rates[size] = size / statistics.median(times_s) / 1e9
        left_s -= first_s + framework.mean_over_ranks(sum(times_s) * at_once)
        expected_s = framework.mean_over_ranks(statistics.median(times_s)) * 4
    return rates


def _seconds(framework: Framework, reduce: Callable[[], None], launches: int) -> float:
    begin_s = time.perf_counter()
    for _ in range(launches):
        reduce()
    framework.synchronise()
    return (time.perf_counter() - begin_s) / launches
