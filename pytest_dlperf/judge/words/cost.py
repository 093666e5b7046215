"""The words of two costs of a step: what is more, at which module, by which operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pytest_dlperf.core.cost import COSTS_LESS, COSTS_MORE, COSTS_SAME, meaning_of
from pytest_dlperf.core.finding import Finding, Weight
from pytest_dlperf.core.quantity import scaled, signed
from pytest_dlperf.judge.words.options import Options, either, joined

CODES: Final = frozenset({COSTS_MORE, COSTS_LESS, COSTS_SAME})
#: Further figures that a first line names.
_NAMED: Final = 2


def cost_lines(findings: Sequence[Finding], options: Options) -> tuple[str, list[str]]:
    """Return the first line of a comparison of costs, and a detail for each figure."""
    compared = [finding for finding in findings if finding.code in CODES]
    grown = [finding for finding in compared if finding.weight is Weight.FACT]
    shrunk = [finding for finding in compared if finding.weight is Weight.BETTER]
    details = [_detail(finding) for finding in compared if finding.code != COSTS_SAME]
    if grown:
        words = joined(
            _place_and_change(grown[0]), _further("also ", grown[1:]), _further("less: ", shrunk)
        )
        accept = f"accept it: {options.accept}" if options.accept else ""
        is_stored = grown[0].text("against") == "the baseline"
        return f"{words}\n{either('find what changed', accept if is_stored else '')}", details
    if shrunk:
        store = f"store it with {options.update}" if options.update else ""
        is_stored = shrunk[0].text("against") == "the baseline"
        line = joined(_place_and_change(shrunk[0]), _further("also ", shrunk[1:]))
        return joined(line, store if is_stored else ""), details
    same = compared[0]
    within = " within its allowances" if same.figures.get("is_allowed") else ""
    return f"the same cost{within} as {same.text('against')}", details


def _further(lead: str, findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    words = [_change(finding) for finding in findings[:_NAMED]]
    left = len(findings) - _NAMED
    return lead + ", ".join(words) + (f" and {left} more" if left > 0 else "")


def _place_and_change(finding: Finding) -> str:
    """Return where a figure changed, by what, and by how much."""
    place = _place(finding)
    calls = _calls(finding)
    where = joined(place, calls, by=": ")
    return joined(where, _change(finding), by=", ")


def _place(finding: Finding) -> str:
    path, phase = finding.text("path"), finding.text("phase")
    if path or not phase:
        return path
    return {
        "forward": "the forward",
        "backward": "the backward",
        "optimizer": "the optimizer",
    }.get(phase, "the step")


def _calls(finding: Finding) -> str:
    """Return how often what changed is called: ``3 to 4 mm a layer``."""
    what = finding.text("what")
    if not what:
        return ""
    before, now = int(finding.number("calls_before")), int(finding.number("calls_now"))
    layers = int(finding.number("layers"))
    each = ""
    if layers > 1 and before % layers == 0 and now % layers == 0:
        before, now, each = before // layers, now // layers, " a layer"
    backward = " in the backward" if finding.text("phase") == "backward" else ""
    if finding.metric in {"host_waits", "graph_breaks", "regrouped"}:
        return what
    if finding.metric == "peak_memory":
        return f"more {what}" if finding.number("increase") > 0 else f"less {what}"
    if before == now:
        return f"{what} of other shapes{backward}"
    return f"{before} to {now} {what}{each}{backward}"


def _change(finding: Finding) -> str:
    """Return by how much a figure changed: ``+12.5 % FLOPs in bfloat16``."""
    meaning = meaning_of(finding.metric)
    dtype = f" in {finding.text('dtype')}" if "dtype" in finding.figures else ""
    rank = f" of rank {int(finding.number('rank'))}" if "rank" in finding.figures else ""
    name = f"{meaning.words}{dtype}{rank}"
    # Of a small number the number says more than a share
    if not meaning.unit and finding.number("now") < 1000:
        return f"{name} {_amount(finding, 'before')} to {_amount(finding, 'now')}"
    if "change" not in finding.figures:
        return f"{_amount(finding, 'more')} {name}, none before"
    return f"{_share(finding.number('change'))} {name}"


def _share(share: float) -> str:
    """Return a change as a share, with the digits that show it."""
    for digits in (1, 3, 6):
        if abs(share) >= 0.5 * 10 ** -(digits + 2):
            return signed(share) if digits == 1 else f"{100 * share:+.{digits}f} %"
    return "more by a few" if share > 0 else "less by a few"


def _amount(finding: Finding, figure: str) -> str:
    return scaled(int(finding.number(figure)), meaning_of(finding.metric).unit)


def _detail(finding: Finding) -> str:
    sides = f"{_amount(finding, 'before')} to {_amount(finding, 'now')}"
    meaning = meaning_of(finding.metric)
    dtype = f" in {finding.text('dtype')}" if "dtype" in finding.figures else ""
    rank = f" of rank {int(finding.number('rank'))}" if "rank" in finding.figures else ""
    share = f" ({_share(finding.number('change'))})" if "change" in finding.figures else ""
    allowed = ""
    if finding.weight is Weight.NOTE:
        allowed = f"within the allowance of {100 * finding.number('allowed'):g} %"
    where = joined(_place(finding), _calls(finding), by=": ")
    return joined(f"{meaning.words}{dtype}{rank}: {sides}{share}", allowed, where)
