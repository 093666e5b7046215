from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
import sys
import tempfile
import types
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_dlperf.worker.host import imported

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_nothing_is_reported_where_nobody_asks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DLPERF_TREES", raising=False)
    assert imported() is None


def test_modules_of_the_trees_are_reported_and_installed_ones_are_not(
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


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A repository's modules, as a launch lists them."""
    listing = tmp_path / "modules"
    names = ["python/impy/__init__.py", "python/impy/a.py", "old/impy/a.py", "src/imp_alone.py"]
    listing.write_text("\n".join([*names, "src/x/imp_none.py", "a.py", "__init__.py"]))
    monkeypatch.setenv("DLPERF_TREES", str(tmp_path / "tree"))
    monkeypatch.setenv("DLPERF_MODULES", str(listing))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize("folder", ["lib/site-packages", "clone/python"])
@pytest.mark.usefixtures("modules")
def test_a_copy_of_a_package_is_known_wherever_the_repository_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
):
    place = tmp_path / folder
    (place / "impy/sub").mkdir(parents=True)
    for name in ("impy/__init__", "impy/a", "impy/made", "impy/sub/__init__", "imp_alone"):
        (place / f"{name}.py").write_text("")
    monkeypatch.syspath_prepend(place)
    for module in ("impy.a", "impy.made", "impy.sub", "imp_alone"):
        importlib.import_module(module)
    compiled = types.ModuleType("impy.c")
    compiled.__file__ = str(place / "impy/c.cpython-311-x86_64-linux-gnu.so")
    sys.modules["impy.c"] = compiled
    found = imported()
    assert found is not None
    assert found["files"] == {}
    assert found["copies"] == {
        str(place / "impy"): {
            "files": 4, "compiled": True, "roots": {"python/impy": 2, "old/impy": 1},
        },
        str(place / "imp_alone.py"): {
            "files": 1, "compiled": False, "roots": {"src/imp_alone.py": 1},
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "is_outside"),
    [
        ("clone/python", True),
        ("lib/site-packages", False),
        ("cache/torchinductor_user/ab", False),
        ("home/.triton/cache", False),
        ("tmp/generated", False),
    ],
)
@pytest.mark.usefixtures("modules")
def test_a_module_that_nothing_installed_or_generated_is_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, is_outside: bool
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    place = tmp_path / folder
    place.mkdir(parents=True)
    (place / "imp_alone.py").write_text("")
    monkeypatch.syspath_prepend(place)
    importlib.import_module("imp_alone")
    record = imported()
    assert record is not None
    assert (str(place / "imp_alone.py") in record["outside"]) is is_outside


@pytest.mark.usefixtures("modules")
def test_this_package_is_no_copy_of_what_a_repository_has(tmp_path: Path):
    (tmp_path / "modules").write_text("pytest_dlperf/worker/host.py")
    found = imported()
    assert found is not None
    assert found["copies"] == {}


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_process_that_started_others_says_so(method: str, tmp_path: Path):
    program = f"""
import multiprocessing, time
from pytest_dlperf.worker.host import imported
if __name__ == "__main__":
    assert imported()["started_processes"] is False
    process = multiprocessing.get_context({method!r}).Process(target=time.sleep, args=(0,))
    process.start()
    process.join()
    print(imported()["started_processes"])
"""
    file = tmp_path / "rank.py"
    file.write_text(program)
    environment = {**os.environ, "DLPERF_TREES": str(tmp_path)}
    root = str(Path(__file__).parents[3])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(file)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
