"""The words of what forbids to judge: a first line, and what is to be read on demand."""

from __future__ import annotations

import math
from typing import NamedTuple

from pytest_dlperf.core.finding import Finding
from pytest_dlperf.core.quantity import percent
from pytest_dlperf.judge.words.options import Options, either, joined
from pytest_dlperf.judge.words.phrases import change, how_much

_AS_BEFORE = "measure again when the machine is as before"


class Refusal(NamedTuple):
    """Why nothing is judged."""

    line: str
    detail: str = ""


def loss_differs(finding: Finding, options: Options) -> Refusal:
    """Return that a training is fast, but wrong."""
    low, high = percent(finding.number("low")), percent(finding.number("high"))
    return Refusal(
        f"fast but wrong: the loss {_fall(finding.number('fall'))} in run {finding.text('run')}, "
        f"{finding.text('whose')} {_fall(finding.number('before'))}, and an unchanged training "
        f"stays within {low} to {high}; look at labels, learning rate and averaging of gradients, "
        "or, if the training was changed on purpose, raise the case's version"
    )


def _fall(fall: float) -> str:
    return f"rose by {percent(-fall)}" if fall < 0 else f"fell by {percent(fall)}"


def work_unchecked(finding: Finding, options: Options) -> Refusal:
    """Return which part of the declared work could not be checked."""
    text = finding.text("text")
    if finding.text("kind") == "logs":
        return Refusal(f"which training was measured is in doubt, so nothing is compared ({text})")
    return Refusal("nothing shows that this is the work that the case names", text)


def conditions_differ(finding: Finding, options: Options) -> Refusal:
    """Return how the conditions differ from those of the other side."""
    kind, fields = finding.text("kind"), finding.text("fields")
    if kind == "numbers":
        return Refusal(f"{fields}; convert both to one unit")
    if kind == "logs":
        return Refusal(f"these are not the same training ({fields})")
    if kind == "pairs":
        return Refusal(
            "the arms were not measured under the same conditions; compare arms that do the same "
            "work",
            f"{fields}: this arm's, then the other's",
        )
    if kind == "cost":
        store = f"store it again with {options.update}" if options.update else ""
        ref = options.advice("compare with a ref on one version with {}", "against", "REF")
        return Refusal(f"the costs are not of one kind ({fields}); {either(store, ref)}")
    further = int(finding.number("count")) - 1
    name = finding.text("first") + (f" and {further} more" if further else "")
    accept = f"accept them: {options.accept}" if options.accept else ""
    return Refusal(
        f"its conditions are not the stored ones ({name}); {either('restore them', accept)}",
        f"the conditions are not those of the baseline ({fields})",
    )


def disturbed(finding: Finding, options: Options) -> Refusal:
    """Return why a measurement stayed disturbed, and that pairs decide on such a machine."""
    pairs = options.advice("compare in pairs with {}", "against", "main")
    what_to_do = either(pairs, "measure again when the machine is quiet")
    return Refusal(f"others disturbed its runs; {what_to_do}", finding.text("text"))


def machine_moved(finding: Finding, options: Options) -> Refusal:
    """Return that the machine may be all of a change."""
    shift = change(math.expm1(finding.number("shift")))
    node = finding.text("node")
    what = f"node {node}" if node else "the machine"
    return Refusal(
        f"{what} itself is {shift} than with the baseline; {_AS_BEFORE}",
        joined(
            f"canary {finding.text('canary')}: the case cannot be compared with the baseline",
            options.side_by_side,
        ),
    )


def unsteady(finding: Finding, options: Options) -> Refusal:
    """Return why the runs themselves cannot be trusted."""
    kind, text = finding.text("kind"), finding.text("text")
    if kind == "logs":
        return Refusal(text)
    again = "look at their records, and measure again"
    what = (
        "runs of its pairs vary or drift too much"
        if kind == "pairs"
        else "its runs cannot be trusted"
    )
    return Refusal(f"{what}; {again}", text)


def estimators_disagree(finding: Finding, options: Options) -> Refusal:
    """Return that the verdict depends on how a rate is computed."""
    changes, stretch = finding.text("changes"), finding.text("stretch")
    if finding.text("kind") == "logs":
        disagree = f"rates of the same log disagree about the change ({changes})"
        return Refusal(f"{joined(disagree, stretch, by=': ')}; by time, {how_much(finding)}")
    disagree = (
        "the runs were not in one steady state: rates computed by different rules disagree about "
        f"the change ({changes})"
    )
    again = "look at the records of the runs, and measure again"
    return Refusal(f"{joined(disagree, stretch, by=': ')}; {again}")


def nothing_stored(finding: Finding, options: Options) -> Refusal:
    """Return that there is nothing to compare with."""
    if finding.text("kind") == "logs":
        return Refusal("no baseline to judge these logs against; a measured session stores one")
    store = f"store this measurement with {options.update}" if options.update else ""
    return Refusal(joined("no baseline to judge against", store))
