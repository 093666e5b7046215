"""Faults planted in a suite's own training are errors against the right one's baseline.

ArcFace here, whose classifier is sharded; ResNet-50 in the tests of the other frameworks.
"""

from __future__ import annotations

import pytest

from tests.helpers.planted_faults import assert_caught
from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch


def test_planted_faults_are_caught(folder: Folder, monkeypatch: pytest.MonkeyPatch):
    folder.write(
        "planted:arcface",
        batch_size_per_device=16,
        size="tiny",
        iterations=60,
        speedup=None,
        timeout_s=600.0,
    )
    assert_caught(folder, monkeypatch)
