"""Every suite's tiny training in PyTorch on two ranks: the loss falls, and faults are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.planted_suites import (
    Trained,
    faults_asked_for,
    gate_and_nightly,
    train_suites_of,
)
from tests.torch.test_planted_faults import MARKERS

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder, here = tmp_path_factory.mktemp("planted"), Path(__file__).parent
    return train_suites_of("torch", MARKERS, faults_asked_for(request), here, folder)


@pytest.mark.parametrize(("suite", "faults"), gate_and_nightly(MARKERS))
def test_a_suite_trains_and_its_faults_are_found(
    trained: Trained, suite: str, faults: tuple[str, ...]
):
    trained.assert_faults_are_found(suite, faults)
