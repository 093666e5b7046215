from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import Folder

HERE = Path(__file__).parent


class PaddleFolder(Folder):
    """The user's folder of the torch tests, on the Paddle trainings of this one."""

    def write(self, **marker: Any) -> None:
        super().write(framework="paddle", **marker)


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv(
        "PYTHONPATH",
        os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
    )
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    return PaddleFolder(pytester)


def paddle_session(
    path: Path, tests: dict[str, dict[str, Any]], *arguments: str, **options: Any
) -> OneSession:
    """Run perf tests of Paddle's small training in one session."""
    keys = {name: {"framework": "paddle", **marker} for name, marker in tests.items()}
    return run_together(path, keys, *arguments, workloads=HERE, **options)
