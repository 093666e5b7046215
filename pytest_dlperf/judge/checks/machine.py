"""Whether the machine is another one than with the stored sessions, or stayed disturbed."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_dlperf.core.finding import FigureValue, Finding, Weight, known_figures
from pytest_dlperf.judge.canary import Shift, shift_behind
from pytest_dlperf.judge.evidence import Evidence, Kind
from pytest_dlperf.judge.problem_codes import DISTURBED


def check(evidence: Evidence) -> Iterator[Finding]:
    """Yield what others did to the runs, and a shift of the machine that may be all of a change.

    Of runs that others disturbed no shift is said. In pairs both arms met the same machine.
    """
    if evidence.kind is not Kind.SESSIONS:
        return
    if text := evidence.problem_text(DISTURBED):
        yield Finding(code="disturbed", weight=Weight.MACHINE, figures={"text": text})
        return
    case, now, rate = evidence.case, evidence.now, evidence.rate
    if case is None or now is None or rate is None:
        return
    shift, explains = shift_behind(now, evidence.stored, case.layout.device, rate)
    if shift is None:
        return
    if explains:
        yield _finding("machine-moved", Weight.MACHINE, shift)
    else:
        yield _finding("machine-explains-nothing", Weight.NOTE, shift)


def _finding(code: str, weight: Weight, shift: Shift) -> Finding:
    figures: dict[str, FigureValue | None] = {
        "canary": shift.name,
        "shift": shift.size,
        "node": shift.node,
    }
    return Finding(code=code, weight=weight, figures=known_figures(figures))
