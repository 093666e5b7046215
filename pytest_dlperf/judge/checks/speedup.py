"""The speedup over one device, or over the reference layout."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import FigureValue, Finding, Weight
from pytest_dlperf.core.measurement import SPEEDUP_UNKNOWN
from pytest_dlperf.core.verdict import GOOD
from pytest_dlperf.judge.canary import Shift, links_behind
from pytest_dlperf.judge.evidence import Evidence
from pytest_dlperf.judge.figures import is_worse, metric_finding, rate_is
from pytest_dlperf.judge.metrics import has_speedup
from pytest_dlperf.judge.problem_codes import DISTURBED

_NAME = "speedup"


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield that the speedup fell, or why it is not judged.

    It fails no case whose throughput is certified. With the library that drives them, links are
    what a speedup measures, so that links which alone became slower are no excuse.
    """
    if _NAME not in evidence.comparisons:
        yield from _without_speedup(evidence)
        return
    if not is_worse(evidence, _NAME):
        return
    why = evidence.why_devices_wait
    shift = _shift_of_links(evidence)
    if shift is not None:
        yield metric_finding(evidence, _NAME, "worse", Weight.FACT, why=why)
        figures: dict[str, FigureValue] = {"shift": shift.size}
        yield Finding(code="links-slower", weight=Weight.NOTE, figures=figures)
    elif rate_is(evidence, *GOOD):
        yield metric_finding(
            evidence,
            _NAME,
            "excused",
            Weight.NOTE,
            parent_change=evidence.parent_change,
            parent=None if evidence.now is None else evidence.now.reference_words,
        )
    else:
        yield metric_finding(evidence, _NAME, "worse", Weight.RED, why=why)


def _shift_of_links(evidence: Evidence) -> Shift | None:
    """Return the shift of links that alone became slower; None where that is not known."""
    case, now, rate = evidence.case, evidence.now, evidence.rate
    if case is None or now is None or rate is None or evidence.problem_text(DISTURBED):
        return None
    return links_behind(now, evidence.stored, case.layout.device, rate)


def _without_speedup(evidence: Evidence) -> Iterator[Finding]:
    """Yield why a speedup that is stored was not judged."""
    now = evidence.now
    over = {session.reference for session in evidence.stored if has_speedup(session)}
    if not over or now is None or evidence.rate is None:
        return
    figures: dict[str, FigureValue] = {}
    if now.parent_throughputs:
        before = sorted("one device" if layout is None else str(layout) for layout in over)
        figures = {"over": now.reference_words, "stored_over": " or ".join(before)}
    elif not any(problem.code == SPEEDUP_UNKNOWN for problem in now.problems):
        return
    yield Finding(code="not-judged", weight=Weight.NOTE, metric=_NAME, figures=figures)
