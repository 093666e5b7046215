"""Says of stored outcomes what later sessions can detect by them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.core.verdict import Rule
from pytest_dlperf.judge.later import later_session
from pytest_dlperf.judge.stats.family import family_size
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.baseline.update import KEPT_SESSIONS


def with_later_sessions(
    store: BaselineStore, outcomes: Sequence[Outcome], rule: Rule, *, count_family: bool
) -> list[Outcome]:
    """Return ``outcomes``; those that were stored say what later sessions can detect by that.

    ``count_family``: alpha is split over the cases that are stored, else as ``rule`` says.
    """
    entries, _ = store.readable()  # a broken file is reported with its case
    completed = []
    for outcome in outcomes:
        if not outcome.update or outcome.environment is None:
            completed.append(outcome)
            continue
        machine_class = outcome.environment.machine_class
        stored = [e.baseline for e in entries if e.baseline.machine_class == machine_class]
        own = next((b for b in stored if b.case_id == outcome.case.id), None)
        class_rule = replace(rule, family=family_size(stored)) if count_family else rule
        if own is not None:
            later = later_session(outcome.case, own, class_rule, kept_sessions=KEPT_SESSIONS)
            outcome = replace(outcome, later=later)
        completed.append(outcome)
    return completed
