"""Collectives of a TensorFlow training, from Horovod's own timeline.

Steps live in compiled graphs, from which the averaging cannot be taken out without tracing them
anew. Horovod tells of each tensor when its all-reduce began and ended, on the first rank.
TensorFlow's own strategy tells nothing of the kind.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.worker.frameworks.base import Framework
from pytest_dlperf.worker.frameworks.tensorflow.ranks import HorovodRanks, Ranks

#: Horovod's writer is a thread of its own.
_WRITTEN_WITHIN_S: Final = 2.0


def read(path: Path) -> list[Mapping[str, Any]]:
    """Return the events of a timeline once it is whole; none if it never is."""
    end_s = time.monotonic() + _WRITTEN_WITHIN_S
    while time.monotonic() < end_s:
        try:
            events: list[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            time.sleep(0.01)  # not written yet
            continue
        return events
    return []


def seconds_in_all_reduce(events: Iterable[Mapping[str, Any]]) -> float | None:
    """Return the seconds in which at least one all-reduce went on; None if there was none.

    Activities of a tensor (``pid``) are nested; waiting for other ranks is one of its own.
    """
    open_: dict[int, list[tuple[str, float]]] = {}
    spans: list[tuple[float, float]] = []
    for event in events:
        stack = open_.setdefault(int(event.get("pid", 0)), [])
        if event["ph"] == "B":
            stack.append((str(event["name"]), float(event["ts"])))
        elif event["ph"] == "E" and stack:
            name, begin_us = stack.pop()
            if name == "ALLREDUCE":
                spans.append((begin_us, float(event["ts"])))
    if not spans:
        return None
    total_us = until_us = 0.0
    for begin_us, end_us in sorted(spans):
        total_us += max(0.0, end_us - max(begin_us, until_us))
        until_us = max(until_us, end_us)
    return total_us / 1e6


METHOD: Final = "Horovod's timeline"
_ITERATIONS: Final = 3


def sample(
    framework: Framework, step: Callable[[], Any], ranks: Ranks, folder: Path
) -> dict[str, Any]:
    """Return medians of a few steps, as ``Framework.sample_collectives`` says.

    ``collective_seconds`` is the time that some all-reduce went on, computation beside it or
    not, without the wait for slower ranks; None on ranks other than the first.
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
    found = {
        "method": METHOD if recorded else "",
        "iterations": _ITERATIONS,
        "step_seconds": statistics.median(seconds),
        "own_seconds": None,
        "collective_seconds": None,
    }
    if isinstance(ranks, HorovodRanks) and recorded:
        ranks.stop_timeline()
        if framework.job.rank == 0:
            spent_s = seconds_in_all_reduce(read(path))
            # Their number is small, so that the mean is what there is
            found["step_seconds"] = statistics.fmean(seconds)
            found["collective_seconds"] = None if spent_s is None else spent_s / _ITERATIONS
    return found
