"""Predicted times beside measured ones: baselines of a device whose cost is stored, too."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator

from pytest_dlperf.core.baseline import Baseline
from pytest_dlperf.core.cost import PredictionError
from pytest_dlperf.core.device_rates import DEVICE_RATES
from pytest_dlperf.core.layout import Layout
from pytest_dlperf.judge.predicted_time import predicted_time
from pytest_dlperf.store.baseline import cost_file
from pytest_dlperf.store.baseline.store import BaselineStore


def prediction_errors(
    device: str, store: BaselineStore
) -> tuple[tuple[PredictionError, ...], int]:
    """Return what is predicted of measured cases of ``device``, and how many have no stored cost.

    Raises ``BaselineError`` for a stored cost that cannot be used.
    """
    errors: list[PredictionError] = []
    unchecked = 0
    for baseline in _measured_on(device, store):
        error = _error_of(baseline, device, store)
        if error is None:
            unchecked += 1
        else:
            errors.append(error)
    return tuple(errors), unchecked


def _measured_on(device: str, store: BaselineStore) -> Iterator[Baseline]:
    machine = re.escape(DEVICE_RATES[device].machine)
    # A file that cannot be read is an error where it is used, and here one measurement less
    for entry in store.readable()[0]:
        baseline = entry.baseline
        is_measured = baseline.source.kind == "measured" and baseline.level
        if is_measured and re.fullmatch(rf"\d+x-{machine}", baseline.machine_class):
            yield baseline


def _error_of(baseline: Baseline, device: str, store: BaselineStore) -> PredictionError | None:
    stored = cost_file.read(store.root, baseline.suite, baseline.case_id)
    if stored is None or "work" not in stored.record:
        return None
    layout = Layout.parse(baseline.case_id.rpartition("-")[2])
    predicted = predicted_time(stored.record, device, layout.devices_per_node)
    if predicted.step_ms is None:
        return None
    rate = statistics.median(value for session in baseline.level for value in session.runs)
    return PredictionError(
        case_id=baseline.case_id,
        machine_class=baseline.machine_class,
        predicted_ms=predicted.step_ms,
        measured_ms=1e3 * stored.record["work"] / rate,
    )
