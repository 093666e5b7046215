"""The clause of a throughput: how much it changed, how certain that is, and what would decide."""

from __future__ import annotations

import math

from pytest_dlperf.core.finding import Finding
from pytest_dlperf.core.quantity import percent
from pytest_dlperf.judge.words.options import Options, either, joined
from pytest_dlperf.judge.words.phrases import how_much

#: Code of each verdict on a metric.
FASTER = "faster"
WITHIN = "within-tolerance"
SLOWER = "slower"
UNDECIDED = "undecided"
RATE_CODES = frozenset({FASTER, WITHIN, SLOWER, UNDECIDED})


def rate_clause(finding: Finding, options: Options) -> str:
    """Return the clause of a throughput; to logs and plain numbers no run can be added."""
    if finding.text("kind") in {"logs", "numbers"}:
        return _final(finding)
    how = how_much(finding)
    is_paired = finding.text("kind") == "pairs"
    if is_paired:
        how += f" in {_pairs(int(finding.number('runs')))}"
        how += " in lock-step" if finding.figures.get("in_turns") else ""
    if finding.code == FASTER:
        store = f"store the new level with {options.update}" if options.update else ""
        return joined(how, "" if is_paired else store)
    if finding.code == WITHIN:
        return _within(finding, how, options)
    if finding.code == SLOWER:
        accept = f"accept the new level with {options.accept}" if options.accept else ""
        least = percent(finding.number("min_effect"))
        remedy = either("find what changed", "" if is_paired else accept)
        return f"{how}, certainly more than {least}; {remedy}"
    one_session = not is_paired and bool(finding.figures.get("provisional"))
    noise = "this noise and one stored session" if one_session else "this noise"
    takes = what_pairs_take(finding, options) if is_paired else _what_runs_take(finding, options)
    tolerance_advice = options.advice("allow more with {}", "tolerance")
    return f"{how}: {joined(undecided(finding, noise), either(takes, tolerance_advice))}"


def _pairs(count: int) -> str:
    return f"{count} {'pair' if count == 1 else 'pairs'} of runs"


def _within(finding: Finding, how: str, options: Options) -> str:
    tolerance = percent(finding.number("tolerance"))
    if finding.figures.get("certain"):
        lower = options.advice("lower {} if that is too much", "tolerance")
        return joined(
            f"certainly slower: {how}, yet certified within the tolerance of {tolerance}", lower
        )
    return (
        f"{how}, certified within the tolerance of {tolerance}; a slowdown of "
        f"{percent(finding.number('sees'))} would have been detected"
    )


def undecided(finding: Finding, noise: str) -> str:
    """Return why a change is neither certified nor an alarm; ``noise`` is what hides it."""
    words = (
        f"neither certainly within the tolerance of {percent(finding.number('tolerance'))} nor "
        f"certainly slower, as only a slowdown measured beyond {percent(finding.number('sees'))} "
        f"is certain with {noise}"
    )
    if "high" not in finding.figures or finding.number("high") >= 0:
        return words
    return (
        f"{words} (the interval alone is not an alarm, as the suite's "
        f"{percent(finding.number('alpha'))} of false alarms are split over its cases, metrics "
        "and looks)"
    )


def _what_runs_take(finding: Finding, options: Options) -> str:
    """Return how many further runs would decide what is open, and how long they would take."""
    if "runs_needed" not in finding.figures:
        return joined("no number of runs would decide it", options.side_by_side, by=": ")
    more = int(finding.number("runs_needed") - finding.number("runs"))
    words = f"{more} more {'run' if more == 1 else 'runs'}"
    minutes = finding.number("run_s") / 60
    took = f" (about {math.ceil(more * minutes)} min)" if minutes else ""
    return joined(f"{words}{took} would decide it", ask_for(finding, options), by=": ")


def what_pairs_take(finding: Finding, options: Options) -> str:
    """Return how many further pairs would decide what is open, and how long they would take."""
    if "runs_needed" not in finding.figures:
        return "not even 1000 pairs would decide it: they vary too much for a change of this size"
    more = int(finding.number("runs_needed") - finding.number("runs"))
    seconds = finding.number("run_s")
    took = f" (about {math.ceil(more * seconds / 60)} min)" if seconds else ""
    words = f"{more} more {'pair' if more == 1 else 'pairs'}{took} would decide it"
    return joined(words, ask_for(finding, options), by=": ")


def ask_for(finding: Finding, options: Options) -> str:
    """Return the option that allows as many runs as are needed; a fixed number has another one."""
    option = "max-runs" if finding.figures.get("adaptive") else "runs"
    return options.name(option, str(int(finding.number("runs_needed"))))


def _final(finding: Finding) -> str:
    how = how_much(finding)
    if finding.code == WITHIN:
        return f"{how}, certified within the tolerance of {percent(finding.number('tolerance'))}"
    if finding.code == SLOWER:
        return f"{how}, certainly more than {percent(finding.number('min_effect'))}"
    if finding.code == UNDECIDED:
        more = "more sessions would lower that limit, more runs alone would not decide it"
        if "runs_needed" in finding.figures:
            more = f"about {int(finding.number('runs_needed'))} runs in all would decide it"
        return f"{how}: {undecided(finding, 'this noise')}; {more}"
    return how
