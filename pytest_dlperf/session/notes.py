"""What a session notes in the work folder for later ones: certificates, times of runs."""

from __future__ import annotations

import statistics
import warnings
from typing import TYPE_CHECKING

import pytest

from pytest_dlperf.core.errors import DlperfError
from pytest_dlperf.core.verdict import GOOD
from pytest_dlperf.store.history import certificates, run_times

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_dlperf.core.outcome import Outcome
    from pytest_dlperf.core.run import RunSummary


def note(workdir: Path, outcome: Outcome, of_parent: Sequence[RunSummary]) -> None:
    """Note what ``outcome`` and the runs of its one-device parent tell.

    Warns where that cannot be written.
    """
    measurement = outcome.measurement
    if measurement is None or measurement.inject:
        return
    try:
        if outcome.environment is not None:
            machine_class = outcome.environment.machine_class
            for case, runs in (
                (outcome.case, measurement.runs),
                (outcome.case.parent(), of_parent),
            ):
                took = [run.elapsed_s for run in runs if run.elapsed_s > 0]
                if case is not None and took:
                    run_times.note(workdir, case, machine_class, statistics.median(took))
        if outcome.judgement.verdict in GOOD:
            certificates.note(workdir, outcome.case.id, outcome.time)
    except DlperfError as error:
        warnings.warn(f"pytest-dlperf: {error}", pytest.PytestWarning, stacklevel=1)
