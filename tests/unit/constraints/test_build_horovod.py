from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "constraints" / "build_horovod.py"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The script where TensorFlow is installed, and nothing that compiles is."""
    spec = importlib.util.spec_from_file_location("build_horovod", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "_version_of", {"tensorflow": "2.15.1"}.get)
    monkeypatch.setattr(module, "_TOO_NEW", (4, 0))  # whatever Python runs these tests
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return module


def program(folder: Path, name: str) -> None:
    (folder / name).touch(mode=0o755)


def test_what_the_build_lacks_is_named(script, tmp_path: Path):
    with pytest.raises(SystemExit, match="cmake and a C\\+\\+ compiler and make cannot be found"):
        script.main()
    for name in ("make", "clang++"):
        program(tmp_path, name)
    with pytest.raises(SystemExit, match="must be compiled, and cmake cannot be found on PATH"):
        script.main()
    assert not (tmp_path / "cache").exists()


def test_a_python_without_a_tensorflow_is_reported_before_anything_else(
    script, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(script, "_TOO_NEW", (3, 10))
    monkeypatch.setattr(script, "_version_of", {}.get)
    with pytest.raises(SystemExit, match=r"needs Python 3\.11 or lower; this is 3.*pyenv install"):
        script.main()


def test_without_tensorflow_it_says_so(script, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(script, "_version_of", {}.get)
    with pytest.raises(SystemExit, match="TensorFlow, which is not installed"):
        script.main()


def test_it_builds_once_and_installs_what_it_kept(
    script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("cmake", "make", "g++"):
        program(tmp_path, name)
    calls: list[tuple[str, ...]] = []

    def pip(*arguments: str, env: dict[str, str] | None = None) -> None:
        calls.append(arguments)
        if arguments[0] == "wheel":
            assert env is not None
            assert env["HOROVOD_WITH_TENSORFLOW"] == "1"
            [folder] = [a.partition("=")[2] for a in arguments if a.startswith("--wheel-dir")]
            Path(folder, "horovod-0.28.1-x.whl").touch()

    monkeypatch.setattr(script, "_pip", pip)
    script.main()
    script.main()
    assert [call[0] for call in calls] == ["wheel", "install", "install"]
    kept = Path(calls[1][-1])
    assert kept.is_relative_to(tmp_path / "cache" / "pytest-dlperf")
    assert "tensorflow-2.15.1" in kept.parent.name
    assert sys.implementation.cache_tag.removeprefix("cpython-") in kept.parent.name
    assert list(kept.parent.iterdir()) == [kept]


def test_where_it_is_installed_nothing_is_done(script, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(script, "_version_of", {"horovod": script.HOROVOD}.get)
    monkeypatch.setattr(script, "_pip", lambda *_: pytest.fail("pip was called"))
    script.main()
