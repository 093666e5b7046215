"""The sentences of an interleaved A/B: how much it changed, how certain it is, what to do next."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from pytest_dlperf.core.case import Protocol
from pytest_dlperf.core.quantity import amount
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Comparison, Rule, Verdict
from pytest_dlperf.judge import sentences


def throughput(
    found: Comparison,
    rule: Rule,
    unit: str,
    *,
    slower: bool,
    against: str,
    takes: str,
    pairs: int,
    by_median: bool = False,
    in_turns: bool = False,
) -> str:
    """Return the sentence of a throughput that was judged by ``pairs`` pairs of runs.

    ``slower``: the slowdown is certain, even if the case passed. ``takes`` is ``what_it_takes``;
    ``by_median``: the rates are those of the median iteration; ``in_turns``: both arms were in
    lock-step.
    """
    percent = sentences.percent
    tolerance, sees = percent(found.tolerance or 0.0), percent(found.sees or 0.0)
    by = " at the median iteration" if by_median else ""
    count = f"{pairs} {'pair' if pairs == 1 else 'pairs'} of runs"
    if in_turns:
        count += " in lock-step"
    how = f"{sentences.how_much(found, unit, against, by)} in {count}"
    if found.verdict is Verdict.IMPROVED:
        return how
    if found.verdict is Verdict.PASSED:
        if slower:
            return (
                f"certainly slower: {how}, yet certified within the tolerance of {tolerance}; "
                "lower --dlperf-tolerance if that is too much"
            )
        return (
            f"{how}, certified within the tolerance of {tolerance}; a slowdown of {sees} would "
            "have been detected"
        )
    if found.verdict is Verdict.REGRESSED:
        return f"{how}, certainly more than {percent(rule.min_effect)}; find what changed"
    return (
        f"{how}: neither certainly within the tolerance of {tolerance} nor certainly slower, as "
        f"slowdowns below {sees} cannot be detected with this noise; {takes}, or allow more with "
        "--dlperf-tolerance"
    )


def what_it_takes(
    found: Comparison,
    now: Sequence[RunSummary],
    before: Sequence[RunSummary],
    protocol: Protocol,
) -> str:
    """Return how many further pairs would decide what is open, and how long they would take."""
    if found.runs_needed is None:
        return "not even 1000 pairs would decide it: they vary too much for a change of this size"
    seconds = sum(statistics.median(run.elapsed_s for run in runs) for runs in (now, before))
    more = found.runs_needed - len(now)
    took = f" (about {math.ceil(more * seconds / 60)} min)" if seconds else ""
    words = f"{more} more {'pair' if more == 1 else 'pairs'}{took} would decide it"
    return f"{words}: {sentences.ask_for(found.runs_needed, protocol)}"


def window_is_open(found: Comparison, takes: str) -> str:
    """Return why a case that is certified by its median iteration is not passed."""
    return (
        f"{_window(found)}, which is not certainly within the tolerance of "
        f"{sentences.percent(found.tolerance or 0.0)}, as iterations stall more in some runs than "
        f"in others, and slowdowns below {sentences.percent(found.sees or 0.0)} cannot be "
        f"detected there; {takes}, or allow more with --dlperf-tolerance"
    )


def metric(name: str, found: Comparison) -> str:
    """Return by how much a metric got worse."""
    if name == "whole_window":
        return f"{_window(found)}: some iterations stall"
    what, sides = (
        ("peak memory", sentences.mebibytes(found))
        if name == "peak_memory"
        else ("CPU seconds of an iteration", f"{found.before:.4g} to {found.now:.4g} s")
    )
    return f"{what} grew by {sentences.percent(found.change or 0.0)} ({sides}; {_ends(found)})"


def _window(found: Comparison) -> str:
    return (
        f"work over the whole window is {sentences.change(found.change or 0.0)} "
        f"({amount(found.before or 0.0)} to {amount(found.now or 0.0)}; {_ends(found)})"
    )


def _ends(found: Comparison) -> str:
    low, high = found.interval or (0.0, 0.0)
    return f"90 % interval {sentences.signed(low)} to {sentences.signed(high)}"
