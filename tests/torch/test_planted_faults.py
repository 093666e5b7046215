"""Faults planted in a suite's own training are errors against the right one's baseline.

ResNet-50's are in the tests of the other frameworks.
"""

from __future__ import annotations

import pytest

from tests.helpers.planted_faults import assert_caught
from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch


#: What a suite's own training needs beside the defaults.
MARKERS: dict[str, dict[str, object]] = {
    "arcface": {"batch_size_per_device": 16},
    "bert": {"batch_size_per_device": 16},
    "deeplabv3p": {"batch_size_per_device": 8},
    # Of two images, shuffled labels are the right ones half of the time.
    "hrnet": {"batch_size_per_device": 8},
    "llama": {"batch_size_per_device": 4, "unit": "tokens", "parallel": "ddp"},
    "transformer": {"batch_size_per_device": 128, "unit": "tokens"},
    "dlrm": {"batch_size_per_device": 64, "options": {"model": "dcnv2"}},
    "resnet50": {"batch_size_per_device": 32},
    "tsm": {"batch_size_per_device": 8},
}


# Five sessions for each; in CI the same faults are planted without sessions
# (test_planted_in_each_suite.py), and in the small training with one (test_training.py).
@pytest.mark.nightly
@pytest.mark.parametrize("suite", MARKERS)
def test_planted_faults_are_caught(folder: Folder, monkeypatch: pytest.MonkeyPatch, suite: str):
    folder.write(
        f"planted:{suite}",
        size="tiny",
        iterations=60,
        speedup=None,
        timeout_s=600.0,
        **MARKERS[suite],
    )
    assert_caught(folder, monkeypatch)
