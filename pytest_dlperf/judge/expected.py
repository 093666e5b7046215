"""A slowdown that is known: let pass while it is as it was said to be, and no longer."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import date

from pytest_dlperf.core.expected import Known
from pytest_dlperf.core.verdict import GOOD, Comparison, Judgement, KnownState, Verdict
from pytest_dlperf.judge import sentences


def with_known(judgement: Judgement, known: Known | None, today: date) -> Judgement:
    """Return the judgement with what a known slowdown makes of it.

    Only the throughput's own slowdown can be known: it stays ``regressed``, and passes as
    ``known`` up to its day, unless it is certainly worse, or another metric regressed for which
    it does not account. A throughput that was called good fails as ``gone`` once its interval
    excludes the slowdown, whatever other metrics did.
    """
    if known is None:
        return judgement
    state, words = _state(judgement, known, today)
    if not words:
        return judgement
    return replace(judgement, known=state, reason=f"{words}; {judgement.reason}")


def _state(judgement: Judgement, known: Known, today: date) -> tuple[KnownState | None, str]:
    said = f"{known.issue} ({sentences.change(known.change)})"
    found = judgement.throughput
    if judgement.verdict not in GOOD | {Verdict.REGRESSED} or found.interval is None:
        return None, ""
    if found.verdict is Verdict.REGRESSED:
        if today > date.fromisoformat(known.until):
            return KnownState.EXPIRED, (
                f"{said} was known until {known.until}; mend it, or give it another day"
            )
        if found.interval[1] < known.change:
            return KnownState.WORSE, f"{said} is known, and this is worse"
        if others := _unexplained(judgement, known):
            return None, f"{'; '.join(others)}; {said} is known, and does not account for that"
        return KnownState.KNOWN, f"known until {known.until}: {said}"
    if found.verdict in GOOD and found.interval[0] > known.change:
        return KnownState.GONE, (
            f"{said} is gone; take known= out of the marker, so that it cannot come back unseen"
        )
    if judgement.verdict is Verdict.REGRESSED:
        return None, f"{said} is known of the throughput, which is not what regressed"
    return None, ""


def _unexplained(judgement: Judgement, known: Known) -> list[str]:
    """Return the sentences of the other metrics that regressed by more than the slowdown would.

    It takes as much off the speedup, and off the level that the anchor's tolerance goes by.
    """
    regressed = {
        name: found
        for name, found in judgement.metrics.items()
        if found.verdict is Verdict.REGRESSED
    }
    told = []
    if anchor := regressed.get("anchor"):
        drift = (1 + known.change) * (1 - (anchor.tolerance or 0.0)) - 1
        if _best(anchor) < drift:
            told.append(sentences.drifted(anchor))
    if memory := regressed.get("peak_memory"):
        told.append(sentences.memory(memory))
    if (speedup := regressed.get("speedup")) and _best(speedup) < known.change:
        told.append(sentences.speedup(speedup))
    return told


def _best(found: Comparison) -> float:
    """Return the upper end of the interval of a change."""
    return found.interval[1] if found.interval else -math.inf
