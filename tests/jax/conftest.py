from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.one_session import OneSession, run_together
from tests.helpers.user_folder import Folder

HERE = Path(__file__).parent


class JaxFolder(Folder):
    """The user's folder of the torch tests, on the JAX trainings of this one."""

    def write(self, **marker: Any) -> None:
        super().write(framework="jax", **marker)


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Folder:
    path = [str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    return JaxFolder(pytester)


def jax_session(
    path: Path, tests: dict[str, dict[str, Any]], *arguments: str, **environment: str
) -> OneSession:
    """Run perf tests of JAX's small training in one session."""
    keys = {"framework": "jax", "speedup": None, "timeout_s": 240.0}
    tests = {name: {**keys, **marker} for name, marker in tests.items()}
    # On a CPU without instructions for bf16 such a case is left out unless it is asked for.
    arguments = "--dlperf-precision=fp32,bf16", *arguments
    return run_together(path, tests, *arguments, workloads=HERE, environment=environment)
