"""The clauses of metrics beside the throughput: what got worse, is open, or was not judged."""

from __future__ import annotations

from pytest_dlperf.core.finding import Finding
from pytest_dlperf.core.metrics import EVERY_CASE, metric_of, words_of
from pytest_dlperf.core.quantity import amount, percent, signed
from pytest_dlperf.judge.words.options import Options, either, joined
from pytest_dlperf.judge.words.phrases import (
    both_sides,
    change,
    figure,
    interval,
)
from pytest_dlperf.judge.words.rate import what_pairs_take


def worse_clause(finding: Finding, options: Options, *, leads: bool) -> str:
    """Return by how much a metric got worse; one that ``leads`` a sentence has a remedy."""
    words = _worse(finding)
    if not leads:
        return words
    is_paired = finding.text("kind") == "pairs"
    accept = f"accept the new level with {options.accept}" if options.accept else ""
    if finding.metric == "anchor":
        return f"{words}; find what changed since, or accept this level with " + (
            "dlperf baselines accept --anchor"
        )
    if is_paired and finding.metric in EVERY_CASE:
        return words
    return f"{words}; {either(metric_of(finding.metric).remedy, '' if is_paired else accept)}"


def _worse(finding: Finding) -> str:
    value = finding.number("change")
    if finding.metric == "anchor":
        return (
            f"the last levels are {change(value)} than the anchor ({both_sides(finding)}), "
            f"certainly beyond the tolerance of {percent(finding.number('tolerance'))}"
        )
    if finding.metric == "whole_window":
        return f"{window_words(finding)}: some iterations stall"
    if finding.metric == "peak_memory":
        sides = both_sides(finding, "bytes")
        return f"peak memory grew by {percent(value)} ({sides}; {interval(finding)})"
    if finding.metric == "cpu_seconds":
        sides = f"{finding.number('before'):.4g} to {finding.number('now'):.4g} s"
        what = "CPU seconds of an iteration grew by"
        return f"{what} {percent(value)} ({sides}; {interval(finding)})"
    if finding.metric == "speedup":
        fall = f"speedup fell by {percent(-value)} ({both_sides(finding)}; {interval(finding)})"
        return joined(fall, finding.text("why"), by=": ")
    if finding.figures.get("is_count"):
        return f"{words_of(finding.metric)}: {_sides(finding)}, and any change for the worse fails"
    return f"{_changed(finding)}, certainly for the worse"


def window_words(finding: Finding) -> str:
    """Return by how much work over the whole window changed."""
    return (
        f"work over the whole window is {change(finding.number('change'))} "
        f"({both_sides(finding)}; {interval(finding)})"
    )


def _sides(finding: Finding) -> str:
    unit = finding.text("unit")
    return " to ".join(figure(finding.number(side), unit) for side in ("before", "now"))


def _changed(finding: Finding) -> str:
    return (
        f"{words_of(finding.metric)} changed by {signed(finding.number('change'))} "
        f"({_sides(finding)}; {interval(finding)})"
    )


def open_clause(finding: Finding, options: Options) -> str:
    """Return why a metric is neither certified nor certainly worse, and what would decide it."""
    tolerance = percent(finding.number("tolerance"))
    if finding.metric == "whole_window":
        remedy = options.advice("allow more with {}", "tolerance")
        return (
            f"{window_words(finding)}, which is not certainly within the tolerance of {tolerance}"
            ", as iterations stall more in some runs than in others, and only a slowdown measured "
            f"beyond {percent(finding.number('sees'))} is certain there; "
            f"{either(what_pairs_take(finding, options), remedy)}"
        )
    is_paired = finding.text("kind") == "pairs"
    pairs = options.advice("allow more pairs with {}", "max-runs")
    remedy = pairs if is_paired else options.side_by_side
    return (
        f"{_changed(finding)}: neither certainly within its tolerance of {tolerance} nor "
        f"certainly worse; {joined(remedy, 'or allow more in metrics of the marker', by=', ')}"
    )


def excused_clause(finding: Finding) -> str:
    """Return why a metric that got worse does not fail the case."""
    if finding.metric != "speedup":
        return _worse(finding)
    fall = f"speedup fell by {percent(-finding.number('change'))} ({both_sides(finding)})"
    if finding.number("parent_change") > 0:
        faster = percent(finding.number("parent_change"))
        return f"{fall}, but only because {finding.text('parent')} became {faster} faster"
    return f"{fall}, but the throughput of all devices is certified"


def not_judged_clause(finding: Finding, options: Options, *, may_store: bool) -> str:
    """Return which metric was not judged, and why; ``may_store``: an update would store it."""
    if finding.metric == "speedup":
        over, stored_over = finding.text("over"), finding.text("stored_over")
        if not over:
            return "its speedup is not judged, as it could not be measured (see the note)"
        return f"its speedup over {over} is not judged, as the stored one is over {stored_over}"
    why = "no stored session has it"
    if finding.text("lacks") == "now":
        why = f"this run has none: it needs {metric_of(finding.metric).needs}"
    elif finding.text("kind") == "pairs":
        why = "the other arm does not report it"
    elif may_store and options.update:
        why += f": store one with {options.update}"
    return f"{words_of(finding.metric)} is not judged, as {why}"


def short_worse(finding: Finding) -> str:
    """Return by how much a metric got worse, for a first line."""
    if finding.figures.get("is_count") or ("low" not in finding.figures and not _is_rate(finding)):
        sides = (amount(finding.number(side)) for side in ("before", "now"))
        return f"{words_of(finding.metric)}: {' to '.join(sides)}"
    value = finding.number("change")
    return metric_of(finding.metric).worse.format(
        words=words_of(finding.metric),
        change=change(value),
        share=percent(abs(value)),
        signed=signed(value),
    )


def _is_rate(finding: Finding) -> bool:
    return finding.metric in EVERY_CASE
