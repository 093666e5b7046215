"""Describe baselines in a few words, for tables and messages."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from pytest_dlperf.core.baseline import Baseline, Session
from pytest_dlperf.store.baseline.key import PUBLISHED

#: What stands where there is nothing, as in the reports.
ABSENT: Final = "--"
#: Sessions within this time show one state of the machine.
_APART: Final = timedelta(hours=1)


def level(baseline: Baseline) -> float:
    """Return the throughput that stands for ``baseline``: that of its last session."""
    return statistics.median(baseline.level[-1].runs)


def figure(value: float) -> str:
    """Return a measured rate with four significant digits at least: ``35.52``, ``9310``."""
    return f"{value:.4g}" if value < 1000 else f"{value:.0f}"


def exact(value: float) -> str:
    """Return a number as a document prints it, nothing added and nothing rounded."""
    return f"{value:.12g}"


def throughput(baseline: Baseline) -> str:
    """Return the throughput with its unit; a published one exactly as printed."""
    form = exact if baseline.source.kind == PUBLISHED else figure
    return f"{form(level(baseline))} {baseline.unit}/s"


def counted(number: int, noun: str) -> str:
    """Return ``1 run``, ``5 runs``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def source(baseline: Baseline) -> str:
    """Return where the numbers come from: ``measured 2026-11-21``, or document and table."""
    if baseline.source.kind != PUBLISHED:
        return f"measured {baseline.level[-1].time[:10]}"
    return f"{baseline.source.document}: {baseline.source.table}"


def describe(before: Baseline | None, after: Baseline, what: str, session: Session | None) -> str:
    """Return the line that says what changed, such as ``created  tsm-...  35.52 samples/s``.

    ``session`` is the one that was asked for, as ``after`` holds it; None where it does not.
    """
    head, unit = f"{what:<9} {after.case_id}  ", f"{after.unit}/s"
    if session is None:
        newer = counted(len(after.level), "newer session")
        return f"{head}this session is older than the {newer} that are kept, so it is not stored"
    if what == "unchanged":
        return f"{head}this session is stored already"
    now = statistics.median(session.runs)
    if what == "replaced" and before is not None:
        was = level(before)
        change = f" ({now / was - 1:+.1%})".replace("%", " %")
        if before.unit != after.unit:
            was_text, change = f"{figure(was)} {before.unit}/s", ""
        else:
            was_text = figure(was)
        reason = " ".join(session.reason.split())
        because = f": {reason}" if reason else ""
        return f"{head}{was_text} -> {figure(now)} {unit}{change}{because}"
    count = counted(len(session.runs), "run")
    if session.is_set_aside:
        return f"{head}{figure(now)} {unit} ({count}; set aside as {session.reason!r})"
    if what == "appended":
        count += f", {counted(len(after.level), 'session')}"
    words = f"{head}{figure(now)} {unit} ({count})"
    if what == "appended" and _are_close(after.level):
        words += (
            "; all sessions are of one hour, so they do not show how hours differ: store some at "
            "other times"
        )
    return words


def _are_close(sessions: Sequence[Session]) -> bool:
    times = [one.measured_at for one in sessions]
    return max(times) - min(times) < _APART


def state_text(baseline: Baseline | None) -> str:
    """Return the state of a measured baseline for ``--dlperf-list``."""
    if baseline is None:
        return "none"
    sessions = counted(len(baseline.level), "session")
    return f"{throughput(baseline)} ({sessions}, {source(baseline)})"


def published_text(baselines: Sequence[Baseline]) -> str:
    """Return the published numbers of one case, each with its machine class."""
    return "; ".join(f"{throughput(b)} ({b.machine_class})" for b in baselines) or ABSENT
