"""The sentence of a verdict: the change, how certain it is, what can be detected, what to do."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.protocol import Protocol
from pytest_dlperf.core.quantity import amount
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Comparison, Rule, Verdict

ACCEPT: Final = "--update-baselines --dlperf-reason=TEXT"
ACCEPT_LEVEL: Final = f"accept the new level with {ACCEPT}"
SIDE_BY_SIDE: Final = "compare two versions on this machine as it is with --dlperf-against=REF"
AS_BEFORE: Final = "measure again when the machine is as before"


def percent(share: float) -> str:
    """Return a share as ``12.3 %``."""
    return f"{100 * share:.1f} %"


def signed(share: float) -> str:
    """Return a change as ``+1.2 %``."""
    return f"{100 * share:+.1f} %"


def change(value: float, worse: str = "slower", better: str = "faster") -> str:
    """Return a change of a throughput in words."""
    if abs(value) < 0.0005:
        return "unchanged"
    return f"{percent(abs(value))} {better if value > 0 else worse}"


def _rates(found: Comparison, unit: str) -> str:
    rates = f"{amount(found.before or 0.0)} to {amount(found.now or 0.0)}"
    return f"{rates} {unit}" if unit else rates


def _interval(found: Comparison) -> str:
    low, high = found.interval or (0.0, 0.0)
    return f"90 % interval {signed(low)} to {signed(high)}"


def compared_with(baseline: Baseline, found: Comparison) -> str:
    """Return the name of what ``found`` was compared with: stored, or a published number."""
    if baseline.source.kind != "measured":
        where = " ".join(
            part for part in (baseline.source.document, baseline.source.table) if part
        )
        return f"the published number ({where})" if where else "the published number"
    return "the one stored session" if found.provisional else "the baseline"


def how_much(found: Comparison, unit: str, against: str, by: str = "") -> str:
    """Return by how much a throughput differs from that of ``against``, with its interval.

    ``by`` says which rate it is, where it is not that of the whole window.
    """
    words = f"{change(found.change or 0.0)} than {against}"
    words = words.replace("unchanged than", "unchanged from")
    return f"{words} ({_rates(found, f'{unit}/s')}{by}; {_interval(found)})"


def what_it_takes(found: Comparison, runs: Sequence[RunSummary], protocol: Protocol) -> str:
    """Return how many further runs would decide what is open, and how long they would take."""
    if found.runs_needed is None:
        return f"no number of runs would decide it: {SIDE_BY_SIDE}"
    minutes = statistics.median(run.elapsed_s for run in runs) / 60
    more = found.runs_needed - len(runs)
    words = f"{more} more {'run' if more == 1 else 'runs'}"
    took = f" (about {math.ceil(more * minutes)} min)" if minutes else ""
    return f"{words}{took} would decide it: {ask_for(found.runs_needed, protocol)}"


def ask_for(runs: int, protocol: Protocol) -> str:
    """Return the option that allows so many runs; a fixed number is set by another one."""
    return f"--dlperf-{'max-runs' if protocol.adaptive else 'runs'}={runs}"


def throughput(
    found: Comparison, rule: Rule, unit: str, *, slower: bool, against: str, takes: str
) -> str:
    """Return the sentence of a throughput that was judged.

    ``slower``: the slowdown is certain, even if the case passed. ``against`` names the baseline,
    ``takes`` is ``what_it_takes``.
    """
    tolerance, sees = percent(found.tolerance or 0.0), percent(found.sees or 0.0)
    how = how_much(found, unit, against)
    if found.verdict is Verdict.IMPROVED:
        return f"{how}; store the new level with --update-baselines"
    if found.verdict is Verdict.PASSED:
        detectable = f"a slowdown of {sees} would have been detected"
        if slower:
            return (
                f"certainly slower: {how}, yet certified within the tolerance of {tolerance}; "
                "lower --dlperf-tolerance if that is too much"
            )
        return f"{how}, certified within the tolerance of {tolerance}; {detectable}"
    if found.verdict is Verdict.REGRESSED:
        return (
            f"{how}, certainly more than {percent(rule.min_effect)}; find what changed, or "
            f"{ACCEPT_LEVEL}"
        )
    noise = "this noise and one stored session" if found.provisional else "this noise"
    return (
        f"{how}: {undecided(found, rule, noise)}; {takes}, or allow more with --dlperf-tolerance"
    )


def undecided(found: Comparison, rule: Rule, noise: str) -> str:
    """Return why a change is neither certified nor an alarm; ``noise`` is what hides it."""
    tolerance, sees = percent(found.tolerance or 0.0), percent(found.sees or 0.0)
    words = (
        f"neither certainly within the tolerance of {tolerance} nor certainly slower, as only a "
        f"slowdown measured beyond {sees} is certain with {noise}"
    )
    if found.interval is None or found.interval[1] >= 0:
        return words
    alpha = percent(rule.alpha)
    return (
        f"{words} (the interval alone is not an alarm, as the suite's {alpha} of false alarms are "
        "split over its cases, metrics and looks)"
    )


def certainty(found: Comparison, rule: Rule) -> str:
    """Return the words after ``how_much`` about numbers to which no run can be added."""
    if found.verdict is Verdict.PASSED:
        return f", certified within the tolerance of {percent(found.tolerance or 0.0)}"
    if found.verdict is Verdict.REGRESSED:
        return f", certainly more than {percent(rule.min_effect)}"
    if found.verdict is Verdict.INCONCLUSIVE:
        return f": {undecided(found, rule, 'this noise')}; {_more(found)}"
    return ""


def _more(found: Comparison) -> str:
    if found.runs_needed is None:
        return "more sessions would lower that limit, more runs alone would not decide it"
    return f"about {found.runs_needed} runs in all would decide it"


def drifted(found: Comparison) -> str:
    """Return the sentence of a case whose stored levels left the anchor, where no pair decides."""
    return (
        f"the last levels are {change(found.change or 0.0)} than the anchor "
        f"({_rates(found, '')}), certainly beyond the tolerance of "
        f"{percent(found.tolerance or 0.0)}; find what changed since, or accept this level with "
        "dlperf baselines accept --anchor"
    )


def memory(found: Comparison) -> str:
    """Return the sentence of a peak memory that grew."""
    return (
        f"peak memory grew by {percent(found.change or 0.0)} ({mebibytes(found)}; "
        f"{_interval(found)}); look for a memory leak, or {ACCEPT_LEVEL}"
    )


def mebibytes(found: Comparison) -> str:
    """Return the bytes of both sides, as the report has them: ``350 to 500 MiB``."""
    before, now = ((value or 0.0) / 2**20 for value in (found.before, found.now))
    return f"{amount(before)} to {amount(now)} MiB"


def speedup(found: Comparison, why: str = "") -> str:
    """Return the sentence of a speedup that fell; ``why`` is the reason that the ranks show."""
    return f"{speedup_fell(found, why)}; find what makes the devices wait, or {ACCEPT_LEVEL}"


def speedup_fell(found: Comparison, why: str) -> str:
    """Return by how much a speedup fell, and why if that is known."""
    words = (
        f"speedup fell by {percent(-(found.change or 0.0))} ({_rates(found, '')}; "
        f"{_interval(found)})"
    )
    return f"{words}: {why}" if why else words


def speedup_excused(found: Comparison, parent_change: float | None, parent: str) -> str:
    """Return why a lower speedup does not fail the case; it follows the throughput's sentence.

    ``parent`` is what the speedup is over.
    """
    fall = f"speedup fell by {percent(-(found.change or 0.0))} ({_rates(found, '')})"
    if parent_change is not None and parent_change > 0:
        return f"{fall}, but only because {parent} became {percent(parent_change)} faster"
    return f"{fall}, but the throughput of all devices is certified"


def speedup_not_judged(now: str, before: str) -> str:
    """Return that a stored speedup was not compared; both are what a speedup is over.

    ``now`` is empty where it could not be measured.
    """
    if not now:
        return "; its speedup is not judged, as it could not be measured (see the note)"
    return f"; its speedup over {now} is not judged, as the stored one is over {before}"
