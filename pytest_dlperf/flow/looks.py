"""Look at a case until it is decided: screen with few runs, then confirm with further runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from pytest_dlperf.core.case import Case
from pytest_dlperf.core.verdict import Judgement, Rule
from pytest_dlperf.flow.measured import Measured
from pytest_dlperf.judge.refusals import cut_short
from pytest_dlperf.judge.screen import has_looked, more_runs


class Look(NamedTuple):
    """What one look at a case found."""

    measured: Measured
    #: Whether runs are missing and the budget has no time for them.
    is_cut_short: bool = False
    #: Whether no other look may follow, also where the verdict is open.
    is_last: bool = False


def until_decided(
    case: Case, rule: Rule, budget: str, look: Callable[[int, Judgement | None], Look]
) -> Measured:
    """Return what the last look at ``case`` found; ``judge/screen.py`` says which is the last.

    ``look`` launches runs until that many count, and judges them; it also gets the judgement of
    the look before, None for the first. ``budget`` is the session's, in words.
    """
    wanted, judgement = more_runs(case, None, 0, rule), None
    while True:
        found = look(wanted, judgement)
        measured, judgement = found.measured, found.measured.judgement
        assert measured.measurement is not None
        counting = len(measured.measurement.runs)
        if found.is_cut_short:
            looked = has_looked(case, counting, rule)
            return replace(measured, judgement=cut_short(judgement, budget, looked=looked))
        more = more_runs(case, judgement, counting, rule)
        if more <= 0 or found.is_last:
            return measured
        wanted = counting + more
