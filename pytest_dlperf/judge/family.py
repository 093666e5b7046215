"""How the error rate of alarms is split: over the cases of a suite, and over a case's metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_dlperf.core.baseline import Baseline
    from pytest_dlperf.core.verdict import Rule

#: The throughput's part of what a case may spend: it is what most slowdowns show in.
_THROUGHPUT: Final = 0.8
#: Other gated metrics of a case, at most: speedup, peak memory and the anchor against stored
#: sessions; the whole window, peak memory and CPU seconds of pairs.
_OTHERS: Final = 3


def family_size(baselines: Iterable[Baseline]) -> int:
    """Return the number of cases that a whole suite judges: what alpha is split over.

    Those with a measured baseline, whatever ``-k`` selected.
    """
    return max(1, sum(one.source.kind == "measured" and bool(one.sessions) for one in baselines))


def of_throughput(rule: Rule) -> Rule:
    """Return the rule for the throughput of a case that has other gated metrics too."""
    return replace(rule, alarm_share=_THROUGHPUT)


def of_other(rule: Rule) -> Rule:
    """Return the rule for another gated metric of a case."""
    return replace(rule, alarm_share=(1 - _THROUGHPUT) / _OTHERS)
