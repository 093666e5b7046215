"""The first line of a verdict: what happened, by how much, and what to type, in 25 words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.metrics import EVERY_CASE
from pytest_dlperf.core.quantity import percent
from pytest_dlperf.core.verdict import Verdict
from pytest_dlperf.judge.words.metrics import short_worse
from pytest_dlperf.judge.words.options import Options, either, joined
from pytest_dlperf.judge.words.phrases import change_than, ends
from pytest_dlperf.judge.words.rate import RATE_CODES, ask_for

#: What a first line has at most.
WORDS: Final = 25
RED: Final = frozenset({Weight.RED, Weight.FACT})


def rate_of(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding about the throughput; None where it was not judged."""
    return next((one for one in findings if one.code in RATE_CODES), None)


def first_line(findings: Sequence[Finding], verdict: Verdict, options: Options) -> str:
    """Return the first line of a verdict that figures make, by the findings of one stage."""
    rate = rate_of(findings)
    if verdict is Verdict.REGRESSED:
        return _regressed(findings, rate, options)
    is_stored = rate is not None and rate.text("kind") == "sessions"
    line = _than_before(rate)
    if verdict is Verdict.IMPROVED:
        store = f"store the new level with {options.update}" if options.update else ""
        return joined(line, store if is_stored else "")
    if verdict is Verdict.PASSED:
        if rate is None:
            return line
        certainly = "certainly " if rate.figures.get("certain") else ""
        within = f"within the tolerance of {percent(rate.number('tolerance'))}"
        return joined(f"{certainly}{line}", within, rate.text("why_so_wide"), by=", ")
    remedy = options.advice("allow more with {}", "tolerance")
    if rate is None or rate.weight is not Weight.OPEN:
        metric = metric_in_brief(findings, {Weight.OPEN}) or line
        return f"{metric}: {joined('neither within its tolerance nor certainly worse', remedy)}"
    low, high = rate.number("low"), rate.number("high")
    return f"{line} {ends(low, high)}: {joined(_open(rate), remedy_of(rate, options))}"


def _regressed(findings: Sequence[Finding], rate: Finding | None, options: Options) -> str:
    line = _than_before(rate)
    is_slower = rate is not None and rate.weight in RED
    what = line if is_slower else metric_in_brief(findings, RED) or line
    lead = next((one for one in findings if one.weight in RED), None)
    is_stored = lead is not None and lead.text("kind") == "sessions"
    accept = accept_it(options) if is_stored else ""
    if what.endswith("the anchor"):
        accept = "dlperf baselines accept --anchor"
    return with_remedy(what, either("find what changed", accept))


def accept_it(options: Options) -> str:
    """Return what to type where a slowdown is meant."""
    return f"accept it: {options.accept}" if options.accept else ""


def with_remedy(words: str, remedy: str) -> str:
    """Return ``words`` with what to do, on a line of its own where one would be too long."""
    line = joined(words, remedy)
    return line if len(line.split()) <= WORDS else f"{words}\n{remedy}"


def _than_before(rate: Finding | None) -> str:
    if rate is None:
        return "not compared with stored sessions"
    return change_than(rate.number("change"), rate.text("than"))


def metric_in_brief(findings: Sequence[Finding], weights: Collection[Weight]) -> str:
    """Return the first metric beside the rate with a finding of such a weight, and its change.

    Empty if there is none.
    """
    named = {
        one.metric: one
        for one in findings
        if one.metric and one.weight in weights and one.code not in RATE_CODES
    }
    order = [
        *(name for name in EVERY_CASE if name in named),
        *sorted(set(named) - set(EVERY_CASE)),
    ]
    return short_worse(named[order[0]]) if order else ""


def _open(rate: Finding) -> str:
    if "high" in rate.figures and rate.number("high") < 0:
        return "no alarm yet"
    return f"neither within {percent(rate.number('tolerance'))} nor certainly slower"


def remedy_of(rate: Finding, options: Options) -> str:
    """Return what would decide an open throughput."""
    if "runs_needed" in rate.figures:
        option = ask_for(rate, options)
        return f"{option} would decide it" if option else ""
    if rate.text("kind") == "pairs":
        return options.advice("allow more with {}", "tolerance")
    return options.advice("compare side by side with {}", "against", "REF")
