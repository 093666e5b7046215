"""The sentences of an interleaved A/B: by how much, how sure, what to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.judge import sentences

if TYPE_CHECKING:
    from pytest_dlperf.core.verdict import Comparison, Rule

#: What a metric counts, and for what.
_NAMES: Final = {
    "cpu_seconds": ("CPU seconds of an iteration", "s"),
    "peak_memory": ("peak memory", "bytes"),
}


def throughput(
    found: Comparison, rule: Rule, unit: str, *, slower: bool, against: str, pairs: int
) -> str:
    """Return the sentence of a throughput that was judged by ``pairs`` pairs of runs.

    ``slower``: the slowdown is certain, whatever the verdict.
    """
    percent = sentences.percent
    tolerance, sees = percent(found.tolerance or 0.0), percent(found.sees or 0.0)
    count = f"{pairs} {'pair' if pairs == 1 else 'pairs'} of runs"
    how = f"{sentences.how_much(found, unit, against)} in {count}"
    if found.verdict is Verdict.IMPROVED:
        return how
    if found.verdict is Verdict.PASSED:
        if slower:
            return (
                f"slower for certain, {how}, yet certified within the tolerance of {tolerance}; "
                "lower --dlperf-tolerance if that is too much"
            )
        return (
            f"{how}, certified within the tolerance of {tolerance}; a slowdown of {sees} would "
            "have shown"
        )
    if found.verdict is Verdict.REGRESSED:
        return f"{how}, beyond {percent(rule.min_effect)} for certain; find what changed"
    return (
        f"{how}: neither within the tolerance of {tolerance} for certain nor slower for certain, "
        f"for only a slowdown of {sees} or more shows here; raise --dlperf-max-runs, or allow "
        "more with --dlperf-tolerance"
    )


def metric(name: str, found: Comparison) -> str:
    """Return by how much a metric of which less is better has grown."""
    what, unit = _NAMES[name]
    low, high = found.interval or (0.0, 0.0)
    return (
        f"{what} grew by {sentences.percent(found.change or 0.0)} ({found.before:.4g} to "
        f"{found.now:.4g} {unit}; 90 % interval {sentences.signed(low)} to "
        f"{sentences.signed(high)})"
    )
