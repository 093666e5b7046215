"""What is predicted of measured baselines, beside what was measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_dlperf.flow.prediction_errors import prediction_errors
from pytest_dlperf.store.baseline import cost_file
from pytest_dlperf.store.baseline.cost_file import StoredCost
from pytest_dlperf.store.baseline.store import BaselineStore
from tests.helpers.baseline_builders import baseline, session
from tests.helpers.costs import cost_record


def test_measured_baselines_with_a_cost_show_the_error(tmp_path: Path):
    store = BaselineStore(tmp_path)
    for case_id, machine in (
        ("net-torch-bf16-bs4-1n8g", "8x-h100-80gb-hbm3"),
        ("net-torch-bf16-bs8-1n8g", "8x-h100-80gb-hbm3"),
        ("net-torch-bf16-bs4-1n4g", "4x-a100-sxm4-80gb"),
    ):
        store.write(baseline(session(400.0), suite="net", case_id=case_id, machine_class=machine))
    assert prediction_errors("h100", store) == ((), 2)
    stored = StoredCost(record=cost_record(work=32.0), case_version=1)
    cost_file.write(tmp_path, "net", "net-torch-bf16-bs4-1n8g", stored)
    [error], unchecked = prediction_errors("h100", store)
    assert (error.case_id, error.measured_ms, unchecked) == ("net-torch-bf16-bs4-1n8g", 80.0, 1)
    assert error.share == pytest.approx(error.predicted_ms / 80.0 - 1)
