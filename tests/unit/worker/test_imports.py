from __future__ import annotations

import hashlib
import importlib
import os
from pathlib import Path

import pytest

from pytest_dlperf.worker.imports import imported


def test_nothing_is_told_where_nobody_asks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DLPERF_TREES", raising=False)
    assert imported() is None


def test_modules_of_the_trees_are_told_and_installed_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    tree, other = tmp_path / "tree", tmp_path / "other"
    packages = tree / ".venv/lib/site-packages"
    names = {"imp_own": tree, "imp_installed": packages, "imp_other": other}
    for name, folder in names.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.py").write_text(f"name = {name!r}\n")
        monkeypatch.syspath_prepend(folder)
    (tree / "imp_unused.py").write_text("")
    for name in names:
        importlib.import_module(name)
    monkeypatch.setenv("DLPERF_TREES", os.pathsep.join([str(tree), str(tmp_path / "none")]))
    file = tree / "imp_own.py"
    found = imported()
    assert found is not None
    assert found["files"] == {str(file): hashlib.sha256(file.read_bytes()).hexdigest()}
    assert found["copies"] == {}
    copy = packages / "imp_installed.py"
    (tree / "src").mkdir()
    (tree / "src/imp_installed.py").write_text("")
    found = imported()
    assert found is not None
    assert found["copies"] == {str(copy): "src/imp_installed.py"}
