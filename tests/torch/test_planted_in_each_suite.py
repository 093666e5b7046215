"""Every suite's tiny training in PyTorch on two ranks: the loss falls, and faults are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.planted_suites import Trained, train_suites_of
from tests.torch.test_planted_faults import MARKERS

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Train the suites that are asked for: all, or those of ``-k``."""
    items = [item for item in request.session.items if item.module is request.module]
    suites = [item.callspec.params["suite"] for item in items]
    folder = tmp_path_factory.mktemp("planted")
    return train_suites_of("torch", MARKERS, suites, Path(__file__).parent, folder)


@pytest.mark.parametrize("suite", MARKERS)
def test_a_suite_trains_and_its_faults_are_found(trained: Trained, suite: str):
    trained.assert_faults_are_found(suite)
