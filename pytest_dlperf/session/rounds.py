"""Which cases of a session are measured in rounds: those that only their marker describes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_dlperf.flow.rounds import InRounds, run_rounds
from pytest_dlperf.session.collection import NAME, selected_of
from pytest_dlperf.session.pytest_private import fixtures_of

if TYPE_CHECKING:
    from pytest_dlperf.session.perf_session import PerfSession

#: Options of pytest that stop at a failure, or that run no test body.
_ONE_BY_ONE: Final = ("maxfail", "stepwise", "setuponly")
#: Markers of tests that may not run, or that need something first.
_MAY_NOT_RUN: Final = ("skip", "skipif", "xfail", "usefixtures")


def measure_in_rounds(session: pytest.Session, perf: PerfSession) -> None:
    """Launch the first runs of the session's cases in rounds, where there are several of them.

    Not where the order of cases has a meaning (``-x``, ``--stepwise``, ``--dlperf-budget``), where
    another process decides it (pytest-xdist, a scheduler, nodes started by hand), nor for pairs
    and logs. A case whose test has fixtures of the project is measured in its test alone, as they
    may prepare what it needs.
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
        if (selected := selected_of(item)) and not selected.error and _is_bare(item, perf)
    ]
    if len(cases) > 1:
        perf.start_rounds()
        perf.failed_in_rounds = run_rounds(cases, perf.bench)


def _is_bare(item: pytest.Item, perf: PerfSession) -> bool:
    """Whether nothing but its marker decides how the case of ``item`` runs."""
    if any(item.get_closest_marker(name) for name in _MAY_NOT_RUN):
        return False
    asked, others = fixtures_of(item)
    callspec = getattr(item, "callspec", None)
    parameters = set(callspec.params) if callspec is not None else set()
    if not set(asked) <= {NAME, "request", *parameters}:
        return False
    return not any(_is_in(perf.settings.rootdir, file) for file in others)


def _is_in(folder: Path, file: str) -> bool:
    path = Path(file).resolve()
    return path.is_relative_to(folder) and "site-packages" not in path.parts
