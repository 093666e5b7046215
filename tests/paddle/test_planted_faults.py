"""Faults planted in a suite's own training are errors against the right one's baseline."""

from __future__ import annotations

import pytest

from tests.helpers.planted_faults import assert_caught
from tests.helpers.user_folder import Folder

# Five sessions; in CI the same faults are planted in every suite without sessions
# (test_paddle_planted_in_each_suite.py).
pytestmark = [pytest.mark.paddle, pytest.mark.nightly]


def test_planted_faults_are_caught(folder: Folder, monkeypatch: pytest.MonkeyPatch):
    folder.write(
        workload="planted:resnet50", batch_size_per_device=32, size="tiny", iterations=60,
        speedup=None,
    )  # fmt: skip
    assert_caught(folder, monkeypatch)
