"""Every suite's tiny training in JAX on two devices: the loss falls, and faults are found.

In two processes, and in one that has both devices.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.planted_suites import FOUND, Trained, faults_asked_for, train_suites_of

# Each of 20 trainings is compiled by itself; in CI faults are planted in the small training.
pytestmark = [pytest.mark.jax, pytest.mark.nightly]
#: What a suite's own training needs beside the defaults.
MARKERS: dict[str, dict[str, object]] = {
    "llama": {"batch_size_per_device": 4, "unit": "tokens", "parallel": "ddp"},
    "resnet50": {"batch_size_per_device": 32},
}


@pytest.fixture(scope="module", params=[1, 2], ids=["two processes", "one process"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    markers = {name: {**of, "devices_per_process": request.param} for name, of in MARKERS.items()}
    folder = tmp_path_factory.mktemp("planted")
    return train_suites_of(
        "jax", markers, faults_asked_for(request), Path(__file__).parent, folder
    )


@pytest.mark.parametrize(("suite", "faults"), [(suite, tuple(FOUND)) for suite in MARKERS])
def test_a_suite_trains_and_its_faults_are_found(
    trained: Trained, suite: str, faults: tuple[str, ...]
):
    trained.assert_faults_are_found(suite, faults)
