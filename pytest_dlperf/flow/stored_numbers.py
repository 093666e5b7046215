"""Stored numbers of a case that are found without knowing this machine's class."""

from __future__ import annotations

import statistics

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.store.baseline.store import BaselineStore


def baseline_of_any_machine(store: BaselineStore, case: Case, kind: str) -> Baseline | None:
    """Return the only baseline of ``case`` of a kind: logs do not say which machine wrote them.

    Raises ``CaseError`` where several machine classes have one.
    """
    entries, _ = store.readable()
    found = [
        entry.baseline
        for entry in entries
        if entry.baseline.case_id == case.id and entry.baseline.source.kind == kind
    ]
    if len(found) > 1:
        classes = ", ".join(sorted(baseline.machine_class for baseline in found))
        raise CaseError(
            f"{case.id}: logs do not say which machine wrote them, and there are baselines of "
            f"{classes}; name one with DLPERF_MACHINE_CLASS"
        )
    return found[0] if found else None


def published_value(store: BaselineStore, case: Case) -> dict[str, str | float]:
    """Return the published number of ``case`` with its source; empty if there is none."""
    for baseline in store.published(case.id, case.suite, case.workload):
        return {
            "throughput": statistics.median(baseline.throughputs),
            "unit": baseline.unit,
            "machine_class": baseline.machine_class,
            "document": baseline.source.document,
            "table": baseline.source.table,
        }
    return {}
