"""Faults planted in a suite's own training are errors against the right one's baseline."""

from __future__ import annotations

import pytest

from tests.helpers.planted_faults import assert_caught
from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.tensorflow


def test_planted_faults_are_caught(folder: Folder, monkeypatch: pytest.MonkeyPatch):
    folder.write(
        workload="planted:resnet50", batch_size_per_device=32, size="tiny", iterations=150
    )
    assert_caught(folder, monkeypatch)
