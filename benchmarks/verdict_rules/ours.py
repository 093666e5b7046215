"""Our own rule: stored sessions, and interleaved pairs. The one place that knows the engine."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge.compare import alarm_alpha, margin, slower_for_sure
from pytest_dlperf.judge.metrics import level
from pytest_dlperf.judge.paired import paired_contrast
from pytest_dlperf.judge.priors import THROUGHPUT, Prior
from pytest_dlperf.judge.stats import contrast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_dlperf.judge.stats import Contrast
    from verdict_rules.peer import Seconds

#: Runs, or pairs, after which a case is judged: the screen's.
LOOKS: Final = (3, 5, 10)
#: What is believed where nothing can be learnt: one stored session.
BUILT_IN: Final = THROUGHPUT["gpu"]
#: The median of chi-square over its degrees of freedom, at those of five runs.
_MEDIAN_OF_FOUR: Final = 0.839


def rates(seconds: Seconds) -> list[float]:
    """Return the throughput of each run, by its median iteration, in iterations a second."""
    return [float(rate) for rate in 1 / np.median(seconds, axis=1)]


def learnt(histories: Sequence[Sequence[Sequence[float]]]) -> Prior:
    """Return the prior of a machine class: the spreads of its cases, medians over all of them.

    Where no case has two sessions there is nothing to learn from, and the built-in one is it.
    """
    logs = [
        [[math.log(rate) for rate in session] for session in sessions]
        for sessions in histories
        if len(sessions) > 1
    ]
    if not logs:
        return BUILT_IN
    within = [statistics.variance(session) for case in logs for session in case]
    runs = statistics.median(within) / _MEDIAN_OF_FOUR
    levels = [[statistics.median(session) for session in case] for case in logs]
    between = statistics.median(statistics.variance(case) for case in levels)
    count = len(logs[0][0])
    session = max(between - math.pi / 2 * runs / count, 0.1 * runs)
    return Prior(run_sd=math.sqrt(runs), session_sd=math.sqrt(session))


def _verdict(found: Contrast, tolerance: float, rule: Rule) -> Verdict:
    looks = len(LOOKS)
    if found.lower(alarm_alpha(rule, looks)) > margin(rule.min_effect, -1):
        return Verdict.IMPROVED
    if found.lower(rule.alpha / looks) > -margin(tolerance):
        return Verdict.PASSED
    return Verdict.REGRESSED if slower_for_sure(found, rule, looks) else Verdict.INCONCLUSIVE


def _screened(
    contrast_after: Callable[[int], Contrast], tolerance: float, rule: Rule
) -> tuple[str, int]:
    verdict = Verdict.INCONCLUSIVE
    for look, count in enumerate(LOOKS):
        verdict = _verdict(contrast_after(count), tolerance, rule)
        confirmed = verdict is Verdict.REGRESSED and look > 0
        if confirmed or verdict in {Verdict.PASSED, Verdict.IMPROVED}:
            return str(verdict), count
    return str(verdict), LOOKS[-1]


def stored(
    history: Sequence[Sequence[float]],
    draw: Callable[[int], list[float]],
    *,
    family: int,
    tolerance: float,
    min_effect: float,
    alpha: float,
    prior: Prior,
) -> tuple[str, float]:
    """Return the verdict of a session against stored ones, and the runs that it took.

    ``history`` has the throughputs of the runs of each stored session; ``draw(n)`` measures n
    more runs.
    """
    rule = Rule(alpha=alpha, family=family, min_effect=min_effect)
    sessions = [level(session) for session in history]
    runs: list[float] = []

    def after(count: int) -> Contrast:
        runs.extend(draw(count - len(runs)))
        return contrast(level(runs), sessions, prior)

    return _screened(after, tolerance, rule)


def interleaved(
    draw: Callable[[int], list[tuple[float, float]]],
    *,
    family: int,
    tolerance: float,
    min_effect: float,
    alpha: float,
    prior: Prior,
) -> tuple[str, float]:
    """Return the verdict of interleaved pairs, and the pairs that it took.

    ``draw(n)`` measures n more pairs: throughput before, throughput now.
    """
    rule = Rule(alpha=alpha, family=family, min_effect=min_effect)
    pairs: list[tuple[float, float]] = []

    def after(count: int) -> Contrast:
        pairs.extend(draw(count - len(pairs)))
        before, now = ([math.log(rate) for rate in side] for side in zip(*pairs, strict=True))
        return paired_contrast(now, before, prior)

    return _screened(after, tolerance, rule)
