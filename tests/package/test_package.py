"""What is built is what a user gets: nothing is missing in it, and nothing else is in it."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*words: str | Path, folder: Path = ROOT, **environment: str) -> str:
    done = subprocess.run(
        words, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def tracked() -> set[str]:
    """Files that git knows, or would add."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    return {name for name in listed if (ROOT / name).is_file()}


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist of this tree, and the wheel that is built from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


def one(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_names_and_descriptions(built: Path) -> None:
    run(sys.executable, "-m", "twine", "check", "--strict", *built.iterdir())


def test_wheel_has_package_and_suites_and_nothing_else(built: Path, tracked: set[str]) -> None:
    names = {name for name in contents(one(built, "*.whl")) if ".dist-info/" not in name}
    moved = {"perf_tests": "pytest_dlperf/suites", "baselines": "pytest_dlperf/suites/baselines"}
    expected = {name for name in tracked if name.startswith("pytest_dlperf/")}
    for source, target in moved.items():
        expected |= {
            target + name.removeprefix(source)
            for name in tracked
            if name.startswith(f"{source}/")
            and (source != "baselines" or name.endswith(".published.json"))
        }
    assert names == expected
    assert {"pytest_dlperf/py.typed", "pytest_dlperf/report/outcomes.schema.json"} <= names


def test_sdist_has_what_git_has(built: Path, tracked: set[str]) -> None:
    with tarfile.open(one(built, "*.tar.gz")) as archive:
        names = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert names - {"PKG-INFO"} == tracked


def test_wheel_of_the_sdist_is_that_of_the_tree(built: Path, tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ROOT)
    assert contents(one(tmp_path, "*.whl")) == contents(one(built, "*.whl"))


@pytest.fixture(scope="session")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an empty environment with the wheel and PyTorch."""
    folder = tmp_path_factory.mktemp("empty")
    venv.create(folder, with_pip=True)
    wheel = one(built, "*.whl")
    run(
        folder / "bin/python", "-m", "pip", "install", "--quiet",
        "--constraint", ROOT / "constraints/cpu.txt", f"{wheel}[torch]",
    )  # fmt: skip
    return folder / "bin"


def test_command_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    assert "baselines" in run(installed / "dlperf", "--help", folder=tmp_path)


def test_suite_trains_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    # A user's own folder of that name is not what is found.
    (tmp_path / "perf_tests").mkdir()
    (tmp_path / "perf_tests/__init__.py").write_text("raise AssertionError('not this one')\n")
    told = run(
        installed / "pytest", "--pyargs", "pytest_dlperf.suites", "-k", "tsm and torch and fp32",
        "--cpus=1", "--dlperf-runs=1", "--dlperf-iterations=12", "--dlperf-warmup=4",
        folder=tmp_path, DLPERF_RUNTIME_DIR=str(tmp_path / "runtime"),
    )  # fmt: skip
    assert "tsm.tiny-torch-fp32-bs2-1n1c" in told
    assert "1 no-baseline" in told


def test_published_numbers_are_in_the_wheel(installed: Path, tmp_path: Path) -> None:
    told = run(
        installed / "pytest", "--pyargs", "pytest_dlperf.suites", "-k", "tsm and torch",
        "--dlperf-list", folder=tmp_path,
    )  # fmt: skip
    assert "published" in told
    assert not (tmp_path / "baselines").exists()
