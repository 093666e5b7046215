"""Which cases of a session are measured in rounds, and which of those runs still count."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pytest

from pytest_dlperf.core.case import Case
from pytest_dlperf.flow.bench import Bench
from pytest_dlperf.flow.rounds import InRounds, run_rounds
from pytest_dlperf.session.bare import is_bare
from pytest_dlperf.session.collection import selected_of

if TYPE_CHECKING:
    from pytest_dlperf.session.perf_session import PerfSession

#: Options of pytest that stop at a failure, or that run no test body.
_ONE_BY_ONE: Final = ("maxfail", "stepwise", "setuponly")
#: Variables that a note names; the others it counts.
_NAMED: Final = 5


class Rounds:
    """What a session measured in rounds, before its first test."""

    def __init__(self) -> None:
        #: Why runs failed, by case id.
        self._failed: dict[str, str] = {}
        #: What the ranks of the runs inherited, by case id.
        self._inherited: dict[str, dict[str, str]] = {}

    def measure(self, cases: Sequence[InRounds], bench: Bench) -> None:
        """Launch the runs of the first looks of ``cases``, less the last run of each."""
        now = _inherited()
        with_parents = (c for one in cases for c in (one.case, one.case.parent()) if c)
        self._inherited = {case.id: now for case in with_parents}
        self._failed = run_rounds(cases, bench)

    def failure(self, case: Case, bench: Bench) -> str:
        """Return why a run of ``case`` in rounds failed; empty if none did.

        If what ranks inherit has changed since, the runs of the case and of its one-device
        parent are forgotten, so that the test measures all; a note names what changed.
        """
        now = _inherited()
        for one in (case, case.parent()):
            before = now if one is None else self._inherited.get(one.id, now)
            if one is None or before == now:
                continue
            # The parent's own test, or another of its cases, may have the former ones again
            self._inherited[one.id] = now
            self._failed.pop(one.id, None)
            if bench.runs.forget(one):
                bench.watcher.notice(
                    one,
                    f"{_changed(before, now)} changed after its runs in rounds, so that they do "
                    "not count",
                )
        return self._failed.get(case.id, "")


def measure_in_rounds(session: pytest.Session, perf: PerfSession) -> None:
    """Launch the first runs of the session's cases in rounds, where there are several of them.

    Not where the order of cases has a meaning (``-x``, ``--stepwise``, ``--dlperf-budget``), where
    another process decides it (pytest-xdist, a scheduler, nodes started by hand), nor for pairs
    and logs. A case whose test is not bare is measured in its test alone.
    """
    settings, config = perf.settings, session.config
    if (
        session.testsfailed
        or config.option.collectonly
        or any(config.getoption(name, None) for name in _ONE_BY_ONE)
        or hasattr(config, "workerinput")
        or settings.runs_nothing
        or settings.budget_s is not None
        or settings.scheduling is not None
        or settings.against is not None
        or settings.from_logs is not None
        # Outcomes come one by one, so that each try gets further
        or perf.resumed is not None
        or settings.place.node_part is not None
    ):
        return
    cases = [
        InRounds(selected.case, str(item.path.parent))
        for item in session.items
        if (selected := selected_of(item))
        and not selected.error
        and is_bare(item, settings.rootdir)
    ]
    if len(cases) > 1:
        perf.rounds.measure(cases, perf.bench)


def _inherited() -> dict[str, str]:
    """Return what ranks inherit: variables, and under an empty name the working folder."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return {**kept, "": os.getcwd()}


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the names of what is not as ``before``; values may be secrets."""
    changed = (name for name in {*before, *now} if before.get(name) != now.get(name))
    names = [name or "the working folder" for name in sorted(changed, key=lambda n: (not n, n))]
    if len(names) > _NAMED:
        names[_NAMED:] = [f"{len(names) - _NAMED} others"]
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
