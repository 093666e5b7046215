from __future__ import annotations

import os

import pytest

from tests.helpers.user_folder import HERE, Folder


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Folder:
    monkeypatch.setenv(
        "PYTHONPATH",
        os.pathsep.join([str(HERE), str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
    )
    monkeypatch.setenv("DLPERF_RUNTIME_DIR", str(pytester.path / "runtime"))
    made = Folder(pytester)
    made.write()
    return made
