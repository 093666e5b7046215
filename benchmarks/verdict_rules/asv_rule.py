"""asv: what ``asv compare`` paints red, from the samples of its own runner."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

# The rule has no public name: `asv compare` prints, and returns nothing.
from asv.commands.compare import _is_result_better
from asv_runner.statistics import compute_stats

from verdict_rules.peer import PeerRule, iterations, run_means

if TYPE_CHECKING:
    from collections.abc import Callable

    from verdict_rules.peer import Seconds


def _regressed(
    factor: float, samples: Callable[[Seconds], list[float]], before: Seconds, now: Seconds
) -> bool:
    samples_before, samples_now = samples(before), samples(now)
    time_before, stats_before = compute_stats(samples_before, 1)
    time_now, stats_now = compute_stats(samples_now, 1)
    # It asks both of its conditions and takes the slow one first; the order changes nothing.
    if not _is_result_better(time_before, time_now, None, None, factor, use_stats=False):
        return False
    sides = ((stats_before, samples_before), (stats_now, samples_now))
    return bool(_is_result_better(time_before, time_now, *sides, factor))


RULES: Final = (
    *(
        PeerRule(
            name=f"asv compare -f {factor}, iterations",
            tool="asv",
            level="iteration",
            usual_runs=1,
            regressed=partial(_regressed, factor, iterations),
        )
        for factor in (1.1, 1.02)
    ),
    PeerRule(
        name="asv compare -f 1.02, runs",
        tool="asv",
        level="run",
        usual_runs=5,
        regressed=partial(_regressed, 1.02, run_means),
    ),
)
