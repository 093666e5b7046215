"""Collectives of a TensorFlow training, from Horovod's own timeline.

Steps live in compiled graphs, from which the averaging cannot be taken out without tracing them
again. On the first rank Horovod records when the all-reduce of each tensor began and ended.
TensorFlow's own strategy records nothing of the kind.
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.wire_records import CollectivesRecord
from pytest_dlperf.worker.frameworks.tensorflow import horovod_timeline
from pytest_dlperf.worker.frameworks.tensorflow.ranks import HorovodRanks

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_dlperf.worker.frameworks.base import Framework
    from pytest_dlperf.worker.frameworks.tensorflow.ranks import Ranks

METHOD: Final = "Horovod's timeline"
_ITERATIONS: Final = 3


def sample(
    framework: Framework, step: Callable[[], Any], ranks: Ranks, folder: Path
) -> CollectivesRecord:
    """Return medians of a few steps, as ``Framework.sample_collectives`` says.

    ``collective_seconds`` is the time that some all-reduce went on, with or without
    computation meanwhile, without the wait for slower ranks; None on ranks other than the first.
    """
    path = folder / f"horovod_timeline{framework.job.rank:05d}.json"
    framework.barrier()
    recorded = isinstance(ranks, HorovodRanks) and ranks.start_timeline(str(path))
    timer = framework.timer()
    timer.start()
    for _ in range(_ITERATIONS):
        step()
        timer.lap()
    framework.synchronise()
    seconds = [wall_s for wall_s, _ in timer.read()]
    found = CollectivesRecord(
        method=METHOD if recorded else "",
        iterations=_ITERATIONS,
        step_seconds=statistics.median(seconds),
        own_seconds=None,
        collective_seconds=None,
    )
    if isinstance(ranks, HorovodRanks) and recorded:
        ranks.stop_timeline()
        if framework.job.rank == 0:
            spent_s = horovod_timeline.seconds_in_all_reduce(horovod_timeline.read(path))
            # Their number is small, so that the mean is what there is
            found["step_seconds"] = statistics.fmean(seconds)
            found["collective_seconds"] = None if spent_s is None else spent_s / _ITERATIONS
    return found
