"""The one sentence of a verdict: why, by how much, what it can see, what to type next."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.case import Protocol
from pytest_dlperf.core.quantity import amount
from pytest_dlperf.core.run import RunSummary
from pytest_dlperf.core.verdict import Comparison, Rule, Verdict

ACCEPT: Final = "--update-baselines --dlperf-reason=TEXT"
ACCEPT_LEVEL: Final = f"accept the new level with {ACCEPT}"
SIDE_BY_SIDE: Final = "compare two versions on this machine as it is with --dlperf-against=REF"
AGAIN: Final = (
    f"measure again when the machine is as it was, or store it all the same with {ACCEPT}"
)


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
        return (
            "no number of runs would decide it, more stored sessions would (--update-baselines), "
            "or pairs (--dlperf-against)"
        )
    minutes = statistics.median(run.elapsed_s for run in runs) / 60
    more = found.runs_needed - len(runs)
    words = f"{more} more {'run' if more == 1 else 'runs'}"
    took = f" (about {math.ceil(more * minutes)} min)" if minutes else ""
    return f"{words}{took} would decide it: {ask_for(found.runs_needed, protocol)}"


def ask_for(runs: int, protocol: Protocol) -> str:
    """Return the option that lets a case have so many runs: of a fixed number no other helps."""
    return f"--dlperf-{'max-runs' if protocol.adaptive else 'runs'}={runs}"


def throughput(
    found: Comparison, rule: Rule, unit: str, *, slower: bool, against: str, takes: str
) -> str:
    """Return the sentence of a throughput that was judged.

    ``slower``: the slowdown is certain, whatever the verdict. ``against`` names the baseline,
    ``takes`` is ``what_it_takes``.
    """
    tolerance, sees = percent(found.tolerance or 0.0), percent(found.sees or 0.0)
    how = how_much(found, unit, against)
    if found.verdict is Verdict.IMPROVED:
        return f"{how}; store the new level with --update-baselines"
    if found.verdict is Verdict.PASSED:
        seen = f"a slowdown of {sees} would have shown"
        if slower:
            return (
                f"slower for certain, {how}, yet certified within the tolerance of {tolerance}; "
                "lower --dlperf-tolerance if that is too much"
            )
        return f"{how}, certified within the tolerance of {tolerance}; {seen}"
    if found.verdict is Verdict.REGRESSED:
        return (
            f"{how}, beyond {percent(rule.min_effect)} for certain; find what changed, or "
            f"{ACCEPT_LEVEL}"
        )
    return (
        f"{how}: neither within the tolerance of {tolerance} for certain nor slower for certain, "
        f"for only a slowdown of {sees} or more shows here; {takes}, or allow more with "
        "--dlperf-tolerance"
    )


def certainty(found: Comparison, rule: Rule) -> str:
    """Return what is certain of numbers to which no run can be added, after ``how_much``."""
    tolerance, sees = percent(found.tolerance or 0.0), percent(found.sees or 0.0)
    if found.verdict is Verdict.PASSED:
        return f", certified within the tolerance of {tolerance}"
    if found.verdict is Verdict.REGRESSED:
        return f", beyond {percent(rule.min_effect)} for certain"
    if found.verdict is Verdict.INCONCLUSIVE:
        return (
            f": neither within the tolerance of {tolerance} nor slower for certain; only {sees} "
            f"or more shows here, and {_more(found)}"
        )
    return ""


def _more(found: Comparison) -> str:
    if found.runs_needed is None:
        return "more sessions would show less, more runs alone would not decide it"
    return f"about {found.runs_needed} runs in all would decide it"


def drifted(found: Comparison) -> str:
    """Return the sentence of a case that left its anchor by small steps."""
    return (
        f"{change(found.change or 0.0)} than the anchor ({_rates(found, '')}; "
        f"{_interval(found)}), beyond the tolerance of {percent(found.tolerance or 0.0)} for "
        "certain, by steps that were each let pass; find what changed since, or accept this "
        "level with dlperf baselines accept --anchor"
    )


def below_anchor(found: Comparison) -> str:
    """Return what to say of a case that became faster, and is still below its anchor."""
    return f"it is still {change(found.change or 0.0)} than the anchor ({_rates(found, '')})"


def new_node(node: str) -> str:
    """Return why little shows on a node of which nothing is stored."""
    return (
        f"; nothing is stored of the node {node}, and nodes differ, so that less shows: store "
        "sessions of it with --update-baselines"
    )


def memory(found: Comparison) -> str:
    """Return the sentence of a peak memory that grew."""
    return (
        f"peak memory grew by {percent(found.change or 0.0)} ({mebibytes(found)}; "
        f"{_interval(found)}); find what keeps it, or {ACCEPT_LEVEL}"
    )


def mebibytes(found: Comparison) -> str:
    """Return the bytes of both sides, as the report has them: ``350 to 500 MiB``."""
    before, now = ((value or 0.0) / 2**20 for value in (found.before, found.now))
    return f"{amount(before)} to {amount(now)} MiB"


def speedup(found: Comparison, why: str = "") -> str:
    """Return the sentence of a speedup that fell; ``why`` is what the ranks tell of it."""
    return f"{speedup_fell(found, why)}; find what makes more devices wait, or {ACCEPT_LEVEL}"


def speedup_fell(found: Comparison, why: str) -> str:
    """Return by how much a speedup fell, and why as far as it is known."""
    words = (
        f"speedup fell by {percent(-(found.change or 0.0))} ({_rates(found, '')}; "
        f"{_interval(found)})"
    )
    return f"{words}: {why}" if why else words


def speedup_excused(found: Comparison, parent_change: float | None) -> str:
    """Return why a speedup that fell fails nothing, to be put after the throughput's sentence."""
    fall = f"speedup fell by {percent(-(found.change or 0.0))} ({_rates(found, '')})"
    if parent_change is not None and parent_change > 0:
        return f"{fall}, but only because one device became {percent(parent_change)} faster"
    return f"{fall}, but the throughput behind it is certified"


def noisy(tolerance: float, rule: Rule) -> str:
    """Return the sentence of a case whose noise hides too much."""
    return (
        f"cannot see less than {percent(tolerance)}, above the {percent(rule.tolerance_max)} that "
        "--dlperf-tolerance-max allows, since the stored runs scatter too much; quiet the machine "
        f"and store more sessions with {ACCEPT}, or say what is acceptable with "
        "--dlperf-tolerance"
    )
