"""The words of what is learnt beside the checks: budget, known slowdowns, causes, updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from pytest_dlperf.core.finding import Finding
from pytest_dlperf.judge.words.options import Options, joined
from pytest_dlperf.judge.words.phrases import change


class Place(Enum):
    """Where in the words of a judgement a line is."""

    BEFORE = "before the first line"
    AFTER = "after the first line"
    END = "at the end"
    FIRST_DETAIL = "the first detail"
    DETAIL = "the last detail"


class Line(NamedTuple):
    """A line beside the first one."""

    place: Place
    text: str


def _text_after(words: str = "") -> Callable[[Finding, Options], str]:
    """Return what shows the text of a finding after some words."""
    return lambda finding, options: f"{words}{finding.text('text')}"


_text: Final = _text_after()


def _budget(finding: Finding, options: Options) -> str:
    budget = f"the budget of {finding.text('budget')}"
    if not finding.figures.get("before_confirmed"):
        return f"{budget} is spent"
    again = "run it again, it runs first next time" if finding.figures.get("unconfirmed") else ""
    return joined(f"{budget} was spent before fresh runs confirmed it", again)


def _known_slowdown(finding: Finding, options: Options) -> str:
    state, until = finding.text("state"), finding.text("until")
    slowdown = f"{finding.text('issue')} ({change(finding.number('known_change'))})"
    if state == "expired":
        return f"{slowdown} was known until {until}; fix it, or set a later date"
    if state == "worse":
        return f"{slowdown} is known, and this is worse"
    if state == "known":
        return f"known until {until}: {slowdown}"
    if state == "gone":
        return (
            f"{slowdown} is gone; remove known= from the marker, so that it cannot return "
            "unnoticed"
        )
    unexplained = finding.text("others")
    if unexplained:
        return f"{unexplained}; {slowdown} is known, but does not explain that"
    return f"{slowdown} is known of the throughput, which is not what regressed"


def _below_anchor(finding: Finding, options: Options) -> str:
    return (
        "its last levels are below the anchor; where that is right, dlperf baselines accept "
        "--anchor holds later sessions to this one"
    )


#: Findings with a line of their own.
_LINES: Final[Mapping[str, tuple[Place, Callable[[Finding, Options], str]]]] = {
    "known-slowdown": (Place.BEFORE, _known_slowdown),
    "explained": (Place.AFTER, _text),
    "budget-spent": (Place.END, _budget),
    "variables-differ": (Place.END, _text),
    "not-recorded": (Place.END, _text),
    "equal-arms": (Place.END, _text),
    "measured-again": (Place.END, _text),
    "stored": (Place.END, _text),
    "not-stored": (Place.END, _text_after("the baseline was not written: ")),
    "no-pairs": (Place.END, _text_after("no pairs: ")),
    "no-pairs-with-anchor": (Place.END, _text_after("no pairs with the anchor: ")),
    "no-pairs-with-packages": (
        Place.END,
        _text_after("no pairs with the packages of the stored session: "),
    ),
    "below-anchor": (Place.END, _below_anchor),
    "packages-undecided": (Place.END, _text),
    "equal-code": (Place.FIRST_DETAIL, _text),
    "arm-failed": (Place.DETAIL, _text),
}


def _links(finding: Finding, options: Options) -> str:
    return (
        f"the canary's all-reduce itself is {change(math.expm1(finding.number('shift')))}, and "
        "nothing else of the machine moved: look at the links, and at the library that drives them"
    )


def _looked_in(finding: Finding, options: Options) -> str:
    return f"looked in {finding.text('folder')}"


def _not_logged(finding: Finding, options: Options) -> str:
    return f"logs do not have its metrics ({finding.text('metrics')})"


#: Findings whose clause follows that of the throughput.
_CLAUSES: Final[Mapping[str, Callable[[Finding, Options], str]]] = {
    "links-slower": _links,
    "looked-in": _looked_in,
    "metrics-not-logged": _not_logged,
    "devices-wait": _text,
    "data-wait": _text,
    "not-reported": _text,
    "same-files": _text,
}


def is_line(finding: Finding) -> bool:
    """Return whether a finding has a line of its own, beside the first one."""
    return finding.code in _LINES


def is_clause(finding: Finding) -> bool:
    """Return whether a finding has a clause that follows another one."""
    return finding.code in _CLAUSES


def line(finding: Finding, options: Options) -> Line:
    """Return the line of a finding that has one."""
    place, words = _LINES[finding.code]
    if finding.figures.get("is_detail"):
        place = Place.FIRST_DETAIL
    return Line(place, words(finding, options))


def clause(finding: Finding, options: Options) -> str:
    """Return the clause of a finding; empty if it has none."""
    words = _CLAUSES.get(finding.code)
    return "" if words is None else words(finding, options)
