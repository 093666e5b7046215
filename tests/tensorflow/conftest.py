from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import Folder

HERE = Path(__file__).parent


class TensorflowFolder(Folder):
    """A user's folder whose perf test trains with TensorFlow."""

    def write(self, **marker: Any) -> None:
        super().write(**{"framework": "tensorflow", "timeout_s": 240.0, **marker})


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> TensorflowFolder:
    path = [str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    return TensorflowFolder(pytester)


def tensorflow_session(
    path: Path, tests: dict[str, dict[str, Any]], *arguments: str, **environment: str
) -> OneSession:
    """Run perf tests of TensorFlow's small training, in two ranks alone, in one session.

    What it wrote among temporary files is in the folder ``temporary`` of ``path``.
    """
    temporary = path / "temporary"
    temporary.mkdir()
    keys = {"framework": "tensorflow", "timeout_s": 240.0, "speedup": None}
    return run_together(
        path,
        {name: {**keys, **marker} for name, marker in tests.items()},
        *arguments,
        workloads=HERE,
        environment={"TMPDIR": str(temporary), **environment},
    )
