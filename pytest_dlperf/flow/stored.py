"""Stored numbers of a case: its baseline, the noise of its machine, its published number."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.case import Case
from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.noise import Prior
from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.store.baseline.store import BaselineStore


@dataclass(frozen=True, kw_only=True)
class Stored:
    """The folder of baselines, and which kind of them counts."""

    store: BaselineStore
    #: Whether cases are judged against published numbers, in place of measured baselines.
    published: bool = False

    def baseline(self, case: Case, machine_class: str) -> Baseline | None:
        """Return the baseline of ``case`` on a machine class; None if none is stored.

        Raises ``BaselineError`` for a file that cannot be used.
        """
        if not self.published:
            return self.store.find(machine_class, case.suite, case.id)
        found = self.store.published(case.id, case.suite, case.workload)
        return next((b for b in found if b.machine_class == machine_class), None)

    def profiles(self, case: Case, machine_class: str) -> list[ProfileRecord]:
        """Return the profiles beside the baseline of ``case``; none if none are stored.

        Raises ``BaselineError`` for a file that cannot be used.
        """
        return [] if self.published else self.store.profiles(machine_class, case.suite, case.id)

    def of_any_machine(self, case: Case) -> Baseline | None:
        """Return the only baseline of ``case``: logs do not say which machine wrote them.

        Raises ``CaseError`` where several machine classes have one.
        """
        kind = "published" if self.published else "measured"
        entries, _ = self.store.readable()
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

    def noise_prior(self, machine_class: str, world_size: int) -> Prior | None:
        """Return the noise of a machine class at a world size; None if unknown.

        Raises ``BaselineError`` if the stored noise cannot be read.
        """
        noise = self.store.noise(machine_class)
        return noise.prior(world_size) if noise else None

    def published_value(self, case: Case) -> dict[str, str | float]:
        """Return the published number of ``case`` with its source; empty if there is none."""
        for baseline in self.store.published(case.id, case.suite, case.workload):
            return {
                "throughput": statistics.median(baseline.throughputs),
                "unit": baseline.unit,
                "machine_class": baseline.machine_class,
                "document": baseline.source.document,
                "table": baseline.source.table,
            }
        return {}
