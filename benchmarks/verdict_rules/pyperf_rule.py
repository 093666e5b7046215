"""pyperf: ``pyperf compare_to``, which calls a difference significant or not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import pyperf

# `compare_to` prints what this class finds; it has no public name.
from pyperf._compare import CompareData, CompareResult

from verdict_rules.peer import PeerRule, iterations, run_means

if TYPE_CHECKING:
    from collections.abc import Callable

    from verdict_rules.peer import Seconds


def _data(name: str, values: list[float]) -> CompareData:
    run = pyperf.Run(values, metadata={"name": "case"}, collect_metadata=False)
    return CompareData(name, pyperf.Benchmark([run]))


def _regressed(samples: Callable[[Seconds], list[float]], before: Seconds, now: Seconds) -> bool:
    found = CompareResult(_data("before", samples(before)), _data("now", samples(now)))
    return bool(found.significant and found.norm_mean > 1)


RULES: Final = (
    PeerRule(
        name="pyperf compare_to, iterations",
        tool="pyperf",
        level="iteration",
        usual_runs=1,
        regressed=partial(_regressed, iterations),
    ),
    PeerRule(
        name="pyperf compare_to, runs",
        tool="pyperf",
        level="run",
        usual_runs=5,
        regressed=partial(_regressed, run_means),
    ),
)
