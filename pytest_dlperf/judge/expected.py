"""Expected slowdowns (an xfail for speed): tolerated until their date, or until they get worse."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import date
from typing import Final

from pytest_dlperf.core.case import Known
from pytest_dlperf.core.finding import FigureValue, Finding, Weight, known_figures
from pytest_dlperf.core.metrics import EVERY_CASE, words_of
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, KnownState, Verdict
from pytest_dlperf.judge.figures import comparison_figures
from pytest_dlperf.judge.verdict import with_findings, without_findings
from pytest_dlperf.judge.words.metrics import short_worse

#: Code of what is said of a known slowdown.
KNOWN_SLOWDOWN: Final = "known-slowdown"


def with_known(
    judgement: Judgement, slowdown: Known | None, today: date, fixed: Collection[str] = ()
) -> Judgement:
    """Return the judgement with the state of the known slowdown, if there is one.

    ``fixed`` are the gated metrics that speed does not move.

    Only a slowdown of the throughput can be known: it stays ``regressed``, and passes as
    ``known`` until its date, unless it is certainly worse, or another metric regressed by more
    than it explains. A good throughput fails as ``gone`` once its interval excludes the slowdown.
    """
    judgement = replace(without_findings(judgement, {KNOWN_SLOWDOWN}), known=None)
    finding = None if slowdown is None else _finding(judgement, slowdown, today, fixed)
    if finding is None:
        return judgement
    state = finding.text("state")
    noted = with_findings(judgement, finding)
    return replace(noted, known=KnownState(state) if state else None)


def _finding(
    judgement: Judgement, slowdown: Known, today: date, fixed: Collection[str]
) -> Finding | None:
    """Return what is to be said of the known slowdown; None if nothing is."""
    rate = judgement.throughput
    if judgement.verdict not in GOOD | {Verdict.REGRESSED}:
        return None
    if rate.interval is None or not rate.is_judged:
        return None
    state, unexplained = "", ""
    if rate.verdict is Verdict.REGRESSED:
        if today > date.fromisoformat(slowdown.until):
            state = KnownState.EXPIRED
        elif rate.interval[1] < slowdown.change:
            state = KnownState.WORSE
        else:
            unexplained = "; ".join(_unexplained(judgement, slowdown, fixed))
            state = "" if unexplained else KnownState.KNOWN
    elif rate.verdict in GOOD and rate.interval[0] > slowdown.change:
        state = KnownState.GONE
    elif judgement.verdict is not Verdict.REGRESSED:
        return None
    figures: dict[str, FigureValue | None] = {
        "state": str(state),
        "issue": slowdown.issue,
        "known_change": slowdown.change,
        "until": slowdown.until,
        "others": unexplained,
    }
    return Finding(code=KNOWN_SLOWDOWN, weight=Weight.NOTE, figures=known_figures(figures))


def _unexplained(judgement: Judgement, slowdown: Known, fixed: Collection[str]) -> list[str]:
    """Return, in words, the other metrics that regressed by more than the slowdown would.

    The slowdown lowers the speedup by as much, makes what takes time longer by as much, and moves
    nothing that is ``fixed``.
    """
    regressed = {
        name: compared
        for name, compared in judgement.metrics.items()
        if compared.verdict is Verdict.REGRESSED
    }
    # No session with the slowdown is stored, so that it does not explain the anchor
    names: list[str] = [name for name in ("anchor", "peak_memory") if name in regressed]
    if "speedup" in regressed and _best(regressed["speedup"]) < slowdown.change:
        names.append("speedup")
    reasons = [short_worse(_as_finding(name, regressed[name])) for name in names]
    longer = 1 / (1 + slowdown.change) - 1
    for name in sorted(set(regressed) - set(EVERY_CASE)):
        interval = regressed[name].interval
        if name in fixed or interval is None or min(map(abs, interval)) > longer:
            reasons.append(f"{words_of(name)} got worse")
    return reasons


def _as_finding(name: str, compared: Comparison) -> Finding:
    figures = comparison_figures(compared)
    return Finding(code="worse", weight=Weight.RED, metric=name, figures=figures)


def _best(compared: Comparison) -> float:
    """Return the upper end of the interval of a change."""
    return compared.interval[1] if compared.interval else -math.inf
