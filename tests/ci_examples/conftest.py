from __future__ import annotations

from pathlib import Path

import pytest
from ci_repository import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)
