"""Faults planted in the suites' own trainings are errors against the right ones' baselines."""

from __future__ import annotations

import pytest
from user_folder import Folder

from tests.planted_faults import assert_caught

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("suite", "batch"), [("arcface", 16), ("resnet50", 32)])
def test_planted_faults_are_caught(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, suite: str, batch: int
):
    folder.write(f"planted:{suite}", batch_size_per_device=batch, size="tiny", iterations=60)
    assert_caught(folder, monkeypatch)
