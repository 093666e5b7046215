"""Mann-Whitney at 5 %, two-sided: benchstat takes runs, Google Benchmark's compare.py repetitions.

Neither is Python that can be called on numbers; both are this test, which SciPy has. Repetitions
are in one process, so they are iterations here.
"""

from __future__ import annotations

import statistics
from functools import partial
from typing import TYPE_CHECKING, Final

from scipy.stats import mannwhitneyu

from verdict_rules.peer import PeerRule, iterations, run_means

if TYPE_CHECKING:
    from collections.abc import Callable

    from verdict_rules.peer import Seconds

_ALPHA: Final = 0.05


def _regressed(samples: Callable[[Seconds], list[float]], before: Seconds, now: Seconds) -> bool:
    samples_before, samples_now = samples(before), samples(now)
    slower = statistics.median(samples_now) > statistics.median(samples_before)
    return slower and bool(
        mannwhitneyu(samples_now, samples_before, alternative="two-sided").pvalue < _ALPHA
    )


RULES: Final = (
    PeerRule(
        name="Mann-Whitney, iterations (Google Benchmark)",
        tool="Mann-Whitney",
        level="iteration",
        usual_runs=1,
        regressed=partial(_regressed, iterations),
    ),
    PeerRule(
        name="Mann-Whitney, runs (benchstat)",
        tool="Mann-Whitney",
        level="run",
        usual_runs=5,
        regressed=partial(_regressed, run_means),
    ),
)
