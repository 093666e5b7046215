"""A slowdown that is known: let pass while it is as it was said to be, and no longer."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from pytest_dlperf.core.verdict import GOOD, KnownState, Verdict
from pytest_dlperf.judge import sentences

if TYPE_CHECKING:
    from pytest_dlperf.core.known import Known
    from pytest_dlperf.core.verdict import Judgement


def with_known(judgement: Judgement, known: Known | None, today: date) -> Judgement:
    """Return the judgement with what a known slowdown makes of it.

    A slowdown that was called stays ``regressed``: it passes as ``known`` up to its day, unless
    it is certainly worse. A case that was called good fails as ``gone`` once its interval excludes
    the slowdown.
    """
    if known is None:
        return judgement
    state, words = _state(judgement, known, today)
    if state is None:
        return judgement
    return replace(judgement, known=state, reason=f"{words}; {judgement.reason}")


def _state(judgement: Judgement, known: Known, today: date) -> tuple[KnownState | None, str]:
    said = sentences.change(known.change)
    interval = judgement.throughput.interval
    if judgement.verdict is Verdict.REGRESSED:
        if today > date.fromisoformat(known.until):
            return KnownState.EXPIRED, (
                f"{known.issue} ({said}) was known until {known.until}; mend it, or give it "
                "another day"
            )
        if interval is not None and interval[1] < known.change:
            return KnownState.WORSE, f"{known.issue} is known as {said}, and this is worse"
        return KnownState.KNOWN, f"known until {known.until}: {known.issue} ({said})"
    if judgement.verdict in GOOD and interval is not None and interval[0] > known.change:
        return KnownState.GONE, (
            f"{known.issue} ({said}) is gone; take known= out of the marker, so that it cannot "
            "come back unseen"
        )
    return None, ""
