"""Expected slowdowns (an xfail for speed): tolerated until their date, or until they get worse."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import date

from pytest_dlperf.core.case import Known
from pytest_dlperf.core.metric import TAKEN
from pytest_dlperf.core.metrics import words_of
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, KnownState, Verdict
from pytest_dlperf.judge import sentences
from pytest_dlperf.judge.brief import worse


def with_known(
    judgement: Judgement, known: Known | None, today: date, fixed: Collection[str] = ()
) -> Judgement:
    """Return the judgement with the state of the known slowdown, if there is one.

    ``fixed`` are the gated metrics that speed does not move.

    Only a slowdown of the throughput can be known: it stays ``regressed``, and passes as
    ``known`` until its date, unless it is certainly worse, or another metric regressed by more
    than it explains. A good throughput fails as ``gone`` once its interval excludes the slowdown.
    """
    if known is None:
        return judgement
    state, words = _state_and_reason(judgement, known, today, fixed)
    if not words:
        return judgement
    return replace(judgement, known=state, reason=f"{words}\n{judgement.reason}")


def _state_and_reason(
    judgement: Judgement, known: Known, today: date, fixed: Collection[str]
) -> tuple[KnownState | None, str]:
    slowdown = f"{known.issue} ({sentences.change(known.change)})"
    found = judgement.throughput
    if judgement.verdict not in GOOD | {Verdict.REGRESSED}:
        return None, ""
    if found.interval is None or not found.is_judged:
        return None, ""
    if found.verdict is Verdict.REGRESSED:
        if today > date.fromisoformat(known.until):
            return KnownState.EXPIRED, (
                f"{slowdown} was known until {known.until}; fix it, or set a later date"
            )
        if found.interval[1] < known.change:
            return KnownState.WORSE, f"{slowdown} is known, and this is worse"
        if others := _unexplained(judgement, known, fixed):
            return None, f"{'; '.join(others)}; {slowdown} is known, but does not explain that"
        return KnownState.KNOWN, f"known until {known.until}: {slowdown}"
    if found.verdict in GOOD and found.interval[0] > known.change:
        return KnownState.GONE, (
            f"{slowdown} is gone; remove known= from the marker, so that it cannot return "
            "unnoticed"
        )
    if judgement.verdict is Verdict.REGRESSED:
        return None, f"{slowdown} is known of the throughput, which is not what regressed"
    return None, ""


def _unexplained(judgement: Judgement, known: Known, fixed: Collection[str]) -> list[str]:
    """Return the sentences of the other metrics that regressed by more than the slowdown would.

    The slowdown lowers the speedup by as much, makes what takes time longer by as much, and moves
    nothing that is ``fixed``.
    """
    regressed = {
        name: found
        for name, found in judgement.metrics.items()
        if found.verdict is Verdict.REGRESSED
    }
    reasons = []
    if anchor := regressed.get("anchor"):
        reasons.append(worse("anchor", anchor))  # no session with the slowdown is stored
    if memory := regressed.get("peak_memory"):
        reasons.append(worse("peak_memory", memory))
    if (speedup := regressed.get("speedup")) and _best(speedup) < known.change:
        reasons.append(worse("speedup", speedup))
    longer = 1 / (1 + known.change) - 1
    for name in sorted(set(regressed) - TAKEN):
        found = regressed[name]
        if name in fixed or found.interval is None or min(map(abs, found.interval)) > longer:
            reasons.append(f"{words_of(name)} got worse")
    return reasons


def _best(found: Comparison) -> float:
    """Return the upper end of the interval of a change."""
    return found.interval[1] if found.interval else -math.inf
