"""Faults planted in a suite's own training are errors against the right one's baseline."""

from __future__ import annotations

import pytest

from tests.helpers.planted_faults import assert_caught
from tests.helpers.user_folder import Folder

# Five sessions; without sessions they are planted in test_jax_planted_in_each_suite.py.
pytestmark = [pytest.mark.jax, pytest.mark.nightly]


@pytest.mark.parametrize("devices", [1, 2])
def test_planted_faults_are_caught(folder: Folder, monkeypatch: pytest.MonkeyPatch, devices: int):
    folder.write(
        workload="planted:resnet50", batch_size_per_device=32, size="tiny", iterations=150,
        speedup=None, devices_per_process=devices, layout="1n2c",
    )  # fmt: skip
    assert_caught(folder, monkeypatch)
