"""Our own rule: stored sessions, and interleaved pairs. The one place that knows the engine."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.core.baseline import Session
from pytest_dlperf.core.case import Protocol
from pytest_dlperf.core.verdict import Rule, Verdict
from pytest_dlperf.judge.compare import verdict_of
from pytest_dlperf.judge.learn import learn
from pytest_dlperf.judge.metrics import level
from pytest_dlperf.judge.paired import paired_contrast
from pytest_dlperf.judge.priors import THROUGHPUT
from pytest_dlperf.judge.screen import looks, spending
from pytest_dlperf.judge.stored import contrast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_dlperf.core.layout import DeviceKind
    from pytest_dlperf.core.noise import Prior
    from pytest_dlperf.judge.stats import Contrast
    from verdict_rules.peer import Seconds

#: 5 runs, and up to 10.
PROTOCOL: Final = Protocol()
#: What is believed where nothing can be learnt: one stored session.
BUILT_IN: Final = THROUGHPUT["gpu"]


def rates(seconds: Seconds) -> list[float]:
    """Return the throughput of each run, over its whole time, in iterations a second."""
    return [float(rate) for rate in 1 / np.mean(seconds, axis=1)]


def median_rates(seconds: Seconds) -> list[float]:
    """Return that by the median iteration, as pairs are compared."""
    return [float(rate) for rate in 1 / np.median(seconds, axis=1)]


def learnt(histories: Sequence[Sequence[Sequence[float]]], device: DeviceKind = "gpu") -> Prior:
    """Return what the stored sessions of a machine class tell, as ``noise.json`` holds it."""
    cases = [[Session(time="", runs=tuple(runs)) for runs in case] for case in histories]
    found = learn(cases, THROUGHPUT[device])
    return THROUGHPUT[device] if found is None else found.prior


def _screened(
    contrast_after: Callable[[int], Contrast], tolerance: float, rule: Rule, prior: Prior
) -> tuple[str, int]:
    counts = looks(PROTOCOL, prior)
    verdict = Verdict.INCONCLUSIVE
    for look, count in enumerate(counts):
        spent = spending(PROTOCOL, count, prior)
        verdict = verdict_of(contrast_after(count), tolerance, rule, spent)
        confirmed = verdict is Verdict.REGRESSED and look > 0
        if confirmed or verdict in {Verdict.PASSED, Verdict.IMPROVED}:
            return str(verdict), count
    return str(verdict), counts[-1]


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
        return contrast([level(runs)], sessions, prior)

    return _screened(after, tolerance, rule, prior)


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

    return _screened(after, tolerance, rule, prior)
