"""Look at a case until it is decided: screen with few runs, then confirm with further runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.cost import CostComparison
from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.outcome import Against, Confirmation, Explanation
from pytest_dlperf.core.verdict import Judgement
from pytest_dlperf.core.wire_records import RunFacts
from pytest_dlperf.judge.budget import cut_short
from pytest_dlperf.judge.screen import has_looked, more_runs


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The measurement of a case and the verdict on it."""

    measurement: Measurement | None
    judgement: Judgement
    #: The case with the window that was measured; None where that is the one it declares.
    case: Case | None = None
    #: What the ranks of the first run reported.
    facts: RunFacts = field(default_factory=RunFacts)
    #: The other arm, with what it measured; None without an A/B.
    against: Against | None = None
    #: Installed packages of the other arm; none without an A/B.
    packages_before: Mapping[str, str] = field(default_factory=dict)
    #: What pairs showed of what stored sessions left open; None where they decided.
    confirmation: Confirmation | None = None
    #: Why it got slower; None where nothing was profiled.
    explanation: Explanation | None = None
    #: The cost of a step, in place of a measurement.
    cost: CostComparison | None = None
    #: Whether the budget had no time for further runs that it needs.
    is_cut_short: bool = False
    #: Whether this node ran its part of a case that another node judges.
    share_done: bool = False


class Look(NamedTuple):
    """What one look at a case found."""

    measured: Measured
    #: Whether runs are missing and the budget has no time for them.
    is_cut_short: bool = False
    #: Whether no other look may follow, also where the verdict is open.
    is_last: bool = False


def until_decided(
    case: Case,
    budget: str,
    look: Callable[[int, Judgement | None], Look],
    *,
    in_pairs: bool = False,
) -> Measured:
    """Return what the last look at ``case`` found; ``judge/screen.py`` says which is the last.

    ``look`` launches runs, or ``in_pairs`` pairs of runs, until that many count, and judges them;
    it also gets the judgement of the look before, None for the first. ``budget`` is the session's,
    in words.
    """
    wanted, judgement = more_runs(case, None, 0, in_pairs=in_pairs), None
    while True:
        latest = look(wanted, judgement)
        measured, judgement = latest.measured, latest.measured.judgement
        assert measured.measurement is not None
        counting = len(measured.measurement.runs)
        if latest.is_cut_short:
            looked = has_looked(case, counting)
            judgement = cut_short(judgement, budget, looked=looked)
            return replace(measured, judgement=judgement, is_cut_short=True)
        missing = more_runs(case, judgement, counting, in_pairs=in_pairs)
        if missing <= 0 or latest.is_last:
            return measured
        wanted = counting + missing
