"""Puts the words of findings together: the reason of a judgement, and what is read on demand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pytest_dlperf.core.finding import DECIDED_BY, Finding, Weight, counting
from pytest_dlperf.core.verdict import GOOD, JUDGED, Verdict
from pytest_dlperf.judge.decide import decide, refusal
from pytest_dlperf.judge.words import cost, later, refusals, stages
from pytest_dlperf.judge.words.first_line import RED, first_line, rate_of
from pytest_dlperf.judge.words.later import Place
from pytest_dlperf.judge.words.metrics import (
    excused_clause,
    not_judged_clause,
    open_clause,
    worse_clause,
)
from pytest_dlperf.judge.words.options import Options, joined
from pytest_dlperf.judge.words.phrases import change
from pytest_dlperf.judge.words.rate import RATE_CODES, SLOWER, UNDECIDED, rate_clause
from pytest_dlperf.judge.words.refusals import Refusal

_REFUSALS: Final[Mapping[str, Callable[[Finding, Options], Refusal]]] = {
    "loss-differs": refusals.loss_differs,
    "work-unchecked": refusals.work_unchecked,
    "conditions-differ": refusals.conditions_differ,
    "disturbed": refusals.disturbed,
    "machine-moved": refusals.machine_moved,
    "unsteady": refusals.unsteady,
    "estimators-disagree": refusals.estimators_disagree,
    "nothing-stored": refusals.nothing_stored,
}
#: Figure of a finding whose words are those of an error, or of who made it.
SAYS: Final = "says"
#: Kinds of evidence to which no run can be added: their first line has all that is known.
_FINAL: Final = frozenset({"logs", "numbers"})


class Words(NamedTuple):
    """The words of a judgement."""

    #: The first line says what happened, by how much, and what to do next.
    reason: str
    details: tuple[str, ...]


class _Stage(NamedTuple):
    """The words of one stage."""

    first: str
    details: tuple[str, ...]
    lines: tuple[later.Line, ...]

    def lines_at(self, *places: Place) -> list[str]:
        """Return the lines that are in one of these places."""
        return [line.text for line in self.lines if line.place in places]


def words_of(findings: Sequence[Finding], options: Options) -> Words:
    """Return the words of a judgement with these findings."""
    lead = next((finding for finding in findings if finding.code in stages.FIRST_LINES), None)
    if lead is None:
        own = _stage(findings, options)
        first, remarks, details = own.first, [], own.details
        if not first and own.lines:  # all that is said was learnt later, as what an update did
            first, own = own.lines[0].text, own._replace(lines=own.lines[1:])
    else:
        own = _stage(
            [finding for finding in findings if not finding.stage and finding is not lead], options
        )
        first = stages.first_line(lead, options)
        by_name = {
            name: _stage(
                [replace(finding, stage="") for finding in findings if finding.stage == name],
                options,
            )
            for name in stages.ORDER
            if any(finding.stage == name for finding in findings)
        }
        remarks = [
            line
            for name, stage in by_name.items()
            if name == lead.text(DECIDED_BY) and name != "stored"
            for line in stage.lines_at(Place.AFTER, Place.END)
        ]
        details = tuple(line for stage in by_name.values() for line in _all_lines(stage))
    line, *further = first.split("\n")
    reason = [
        *own.lines_at(Place.BEFORE),
        line,
        *own.lines_at(Place.AFTER),
        *further,
        *remarks,
        *own.lines_at(Place.END),
    ]
    shown = (*own.lines_at(Place.FIRST_DETAIL), *details, *own.lines_at(Place.DETAIL))
    return Words("\n".join(reason), shown)


def _all_lines(stage: _Stage) -> list[str]:
    """Return what else is said of one stage: its first line is in that of all."""
    first, *more = stage.first.split("\n")
    details = [
        *stage.lines_at(Place.FIRST_DETAIL),
        *stage.details,
        *stage.lines_at(Place.DETAIL),
    ]
    return [
        *([] if details else [first]),
        *more,
        *stage.lines_at(Place.AFTER, Place.END),
        *details,
    ]


def _stage(findings: Sequence[Finding], options: Options) -> _Stage:
    verdict = decide(findings)
    weighed = counting(findings)
    # One that says the whole judgement is its first line, whatever its code
    beside = [f for f in weighed if later.is_line(f) and SAYS not in f.figures]
    checked = [finding for finding in weighed if finding not in beside]
    first, details = _first_and_details(checked, verdict, options)
    if any(finding.weight is Weight.STORED for finding in weighed):
        first, details = "", []  # what the update did is all that there is to say
    lines = tuple(later.line(finding, options) for finding in beside)
    return _Stage(first, tuple(detail for detail in details if detail), lines)


def _first_and_details(
    findings: Sequence[Finding], verdict: Verdict, options: Options
) -> tuple[str, list[str]]:
    stated = next((finding for finding in findings if SAYS in finding.figures), None)
    if stated is not None:
        clauses = [
            later.clause(finding, options) for finding in findings if later.is_clause(finding)
        ]
        return joined(stated.text(SAYS), *clauses), stated.text("detail").split("\n")
    refusing = refusal(findings)
    if refusing is not None and verdict not in JUDGED:
        words = _refused(refusing, options)
        beside = [finding for finding in findings if finding.code != "links-slower"]
        clauses = [
            later.clause(finding, options) for finding in beside if later.is_clause(finding)
        ]
        open_facts = [finding for finding in findings if finding.metric]
        details = [_clause(finding, verdict, options, leads=False) for finding in open_facts]
        return joined(words.line, *clauses), [words.detail, *details]
    if any(finding.code in cost.CODES for finding in findings):
        return cost.cost_lines(findings, options)
    rate = rate_of(findings)
    long, detail = _long(findings, rate, refusing, verdict, options)
    if not any(finding.metric for finding in findings) or (rate and rate.text("kind") in _FINAL):
        return long, [detail]
    return first_line(findings, verdict, options), [long, detail]


def _refused(finding: Finding, options: Options) -> Refusal:
    """Return why nothing is judged; of a code that another version wrote, the code."""
    if finding.code not in _REFUSALS:
        return Refusal(f"{finding.name}: this version has no words for it")
    return _REFUSALS[finding.code](finding, options)


def _long(
    findings: Sequence[Finding],
    rate: Finding | None,
    refusing: Finding | None,
    verdict: Verdict,
    options: Options,
) -> tuple[str, str]:
    """Return all clauses as one sentence, and the detail of what forbids to judge the rate."""
    leading = [finding for finding in findings if _leads(finding, verdict)]
    remaining = [finding for finding in findings if finding not in leading and finding is not rate]
    if rate is not None and (_rate_leads(rate, verdict) or not leading):
        beside = [finding for finding in findings if finding is not rate]
        clauses = [_clause(finding, verdict, options, leads=False) for finding in beside]
        return joined(rate_clause(rate, options), *clauses), ""
    leads = [_clause(finding, verdict, options, leads=True) for finding in leading]
    notes = [_clause(finding, verdict, options, leads=False) for finding in remaining]
    if rate is None:
        links = [
            later.clause(finding, options)
            for finding in remaining
            if finding.code == "links-slower"
        ]
        words = _refused(refusing, options) if refusing and not links else Refusal("")
        last = f"throughput: {words.line}" if words.line else ""
        return joined(*leads, *links, last), words.detail
    words_of_rate = rate_clause(rate, options)
    is_window = leading[-1].metric == "whole_window" and leading[-1].weight is Weight.OPEN
    what = "the median iteration" if is_window else "throughput"
    return joined(*leads, f"{what}: {words_of_rate}", *notes), ""


def _rate_leads(rate: Finding, verdict: Verdict) -> bool:
    """Return whether the throughput itself is why the case failed, or is open."""
    return rate.code == (UNDECIDED if verdict is Verdict.INCONCLUSIVE else SLOWER)


def _leads(finding: Finding, verdict: Verdict) -> bool:
    """Return whether a finding beside the rate is why the case failed, or is open."""
    if not finding.metric or finding.code in RATE_CODES:
        return False
    if verdict is Verdict.REGRESSED:
        return finding.weight in RED
    return verdict is Verdict.INCONCLUSIVE and finding.weight is Weight.OPEN


def _clause(finding: Finding, verdict: Verdict, options: Options, *, leads: bool) -> str:
    if finding.code == "worse":
        return worse_clause(finding, options, leads=leads)
    if finding.code == "open":
        return open_clause(finding, options)
    if finding.code == "excused":
        return excused_clause(finding)
    if finding.code == "not-judged":
        return not_judged_clause(finding, options, may_store=verdict in GOOD)
    if finding.code == "machine-explains-nothing":
        by = change(math.expm1(finding.number("shift")))
        return f"the machine is {by} (canary {finding.text('canary')}), which does not explain it"
    return later.clause(finding, options)
