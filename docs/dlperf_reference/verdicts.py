"""Verdicts, and what ``known`` makes of them."""

from __future__ import annotations

from typing import Final

from dlperf_reference.markdown import code, table
from pytest_dlperf.core.verdict import BAD, GOOD, KnownState, Verdict

MEANINGS: Final = {
    Verdict.ERROR: "asked for, and could not be measured, or measured something else",
    Verdict.NOT_RUN: "impossible here for a reason known before anything starts",
    Verdict.INCOMPARABLE: "measured under other conditions, or the machine itself changed",
    Verdict.UNSTEADY: "the case's own noise hides what should be seen",
    Verdict.NO_BASELINE: "nothing stored to judge against",
    Verdict.IMPROVED: "shown to be faster",
    Verdict.PASSED: "shown to be not slower than the tolerance",
    Verdict.REGRESSED: "shown to be slower, or to need more memory, or to scale worse",
    Verdict.INCONCLUSIVE: "neither shown slower nor certified",
}
#: Of a case whose marker has ``known``.
KNOWN: Final = {
    KnownState.KNOWN: "the slowdown is there, and is let pass until its day",
    KnownState.EXPIRED: "its day has passed: judged as without `known`",
    KnownState.WORSE: "slower than `known` says: judged as without it",
    KnownState.GONE: "the slowdown is gone: fails, so that `known` is taken out of the marker",
}


def text() -> str:
    """Return the tables of the verdicts, and of what ``known`` makes of them."""
    verdicts = [(code(verdict.value), MEANINGS[verdict], *_ends(verdict)) for verdict in Verdict]
    known = [(code(state.value), KNOWN[state]) for state in KnownState]
    return (
        table(("verdict", "meaning", "plain", "`--dlperf-strict`", "JUnit"), verdicts)
        + "\nWhat a marker's `known` makes of a verdict (`judgement.known`):\n\n"
        + table(("state", "meaning"), known)
    )


def _ends(verdict: Verdict) -> tuple[str, str, str]:
    if verdict in GOOD:
        return "passes", "passes", "passed"
    if verdict in BAD:
        return "**fails**", "**fails**", "failed"
    return (
        "own category",
        "**fails**",
        "skipped, with its sentence; under `--dlperf-strict` failed",
    )
