"""The forecast in words: which slowdown a later session can detect."""

from __future__ import annotations

from typing import Final

from pytest_dlperf.core.verdict import LaterSession, Remedy
from pytest_dlperf.report.figures import counted, percent

_HOW: Final = {
    "sessions": "store {} at other times",
    "runs": "measure {} a session (--dlperf-runs={})",
    "pairs": "compare {} of runs (--dlperf-against=REF)",
}


def sentence(later: LaterSession) -> str:
    """Return what a later session can detect, and how it could detect smaller slowdowns."""
    sessions = counted(later.sessions, "stored session")
    words = (
        f"a later session of {counted(later.runs, 'run')} can detect slowdowns from "
        f"{percent(later.sees, sign=False)} on, by {sessions}"
    )
    if later.provisional:
        words += ", which does not show how far sessions differ"
    if later.sees <= later.wanted:
        return words
    if not later.remedies:
        return (
            f"{words}; no number of sessions, runs or pairs that was tried lowers that by a tenth"
        )
    return f"{words}; to detect smaller ones: {'; '.join(map(_remedy, later.remedies))}"


def _remedy(remedy: Remedy) -> str:
    noun = {"sessions": "more session", "runs": "run", "pairs": "pair"}[remedy.what]
    how = _HOW[remedy.what].format(counted(remedy.count, noun), remedy.count)
    about = "about " if remedy.what == "pairs" else ""
    return f"{how}, from {about}{percent(remedy.sees, sign=False)} on"
