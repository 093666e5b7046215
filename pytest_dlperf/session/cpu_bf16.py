"""Leaves out bf16 on a CPU without instructions for it, unless it is wanted after all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_dlperf.cases.selection import without_bf16
from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.session.pytest_private import is_matched

if TYPE_CHECKING:
    import pytest

    from pytest_dlperf.cases.selection import Machine
    from pytest_dlperf.core.case import Case
    from pytest_dlperf.session.perf_session import PerfSession


def left_out(item: pytest.Item, case: Case, session: PerfSession, machine: Machine) -> str:
    """Return why ``case``, which ``item`` runs, is left out on ``machine``; empty if it is not.

    It is wanted where it was asked for by name, and where a baseline of it is stored.
    """
    reason = without_bf16(case, machine)
    if not reason or is_asked_for(item, case, session) or _is_stored(case, session):
        return ""
    return reason


def is_asked_for(item: pytest.Item, case: Case, session: PerfSession) -> bool:
    """Return whether the precision of ``case`` was named: by an option, ``-k`` or a node id.

    ``-k`` names it where the test is selected by that word alone: neither ``-k tsm`` nor
    ``-k "not (tsm and bf16)"`` does.
    """
    if case.precision in (session.settings.precisions or ()):
        return True
    config = item.config
    name = item.nodeid.partition("::")[2]
    # A folder may be written in many ways, and the rest has the case's id, which is one test's.
    if case.id in name and any(a.partition("::")[2] == name for a in map(str, config.args)):
        return True
    expression = config.option.keyword.strip()
    return (
        bool(expression)
        and is_matched(item, expression)
        and not is_matched(item, expression, without=case.precision)
    )


def _is_stored(case: Case, session: PerfSession) -> bool:
    """Return whether this machine class has a measured baseline of ``case``."""
    machine_class = session.settings.machine_class or session.devices.machine_class("cpu")
    try:
        return session.store.find(machine_class, case.suite, case.id) is not None
    except DlperfError:
        return True  # a broken file is still a baseline; the error is told when it is used
