"""The anchor: a level that later sessions are held to, however slowly they leave it.

Each session that passes is appended, and the level of the stored sessions follows it: many small
steps down, each within the tolerance, would never be called. Against the anchor they add up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_dlperf.judge.compare import compare, learnt_tolerance
from pytest_dlperf.judge.metrics import level

if TYPE_CHECKING:
    from pytest_dlperf.core.baseline import Baseline
    from pytest_dlperf.core.verdict import Comparison, Rule
    from pytest_dlperf.judge.metrics import Metric
    from pytest_dlperf.judge.screen import Spending


def comparison(
    metric: Metric, baseline: Baseline, given: float | None, rule: Rule, spent: Spending
) -> Comparison | None:
    """Return the throughput against the anchor; None while it is all that is stored.

    ``regressed`` only where it is beyond the tolerance for certain: up to that a case may go.
    Where none is ``given``, it is learnt from the anchor and the prior: the spread of sessions
    that have drifted since would grow with the drift that it is to bound.
    """
    anchor = baseline.anchor
    if anchor is None or (len(baseline.sessions) == 1 and baseline.sessions[0] == anchor):
        return None
    against = replace(metric, stored=(level(anchor.runs, node=anchor.node),))
    tolerance = learnt_tolerance(against, rule, spent) if given is None else given
    return compare(against, tolerance, replace(rule, min_effect=tolerance), spent)
