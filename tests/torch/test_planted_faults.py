"""Faults planted in a suite's own training are errors against the right one's baseline.

ArcFace here, whose classifier is sharded, and Llama; ResNet-50 in those of other frameworks.
"""

from __future__ import annotations

import pytest

from tests.helpers.planted_faults import assert_caught
from tests.helpers.user_folder import Folder

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(
    ("suite", "batch_size", "parallel"), [("arcface", 16, ""), ("llama", 4, "ddp")]
)
def test_planted_faults_are_caught(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, suite: str, batch_size: int, parallel: str
):
    folder.write(
        f"planted:{suite}",
        batch_size_per_device=batch_size,
        parallel=parallel,
        unit="samples" if suite == "arcface" else "tokens",
        size="tiny",
        iterations=60,
        speedup=None,
        timeout_s=600.0,
    )
    assert_caught(folder, monkeypatch)
