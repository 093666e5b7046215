"""What is built is what a user gets: nothing is missing in it, and nothing else is in it."""

from __future__ import annotations

import os
import re
import shutil
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


def test_the_wheel_has_no_fault_that_checkers_know(built: Path) -> None:
    # W002: the empty __init__.py of the suites are alike
    run(sys.executable, "-m", "check_wheel_contents", "--ignore=W002", one(built, "*.whl"))


def test_the_metadata_lack_only_what_the_first_release_decides() -> None:
    """The addresses of the project and of its authors: docs/releasing.md asks for them."""
    said = run(sys.executable, "-m", "pyroma", "--min=8", ROOT)
    lacking = {line for line in said.splitlines() if line.startswith("Your package ")}
    assert all("author-email" in line or "'url'" in line for line in lacking), said


def test_an_index_shows_links_that_lead_to_the_tag(tracked: set[str], tmp_path: Path) -> None:
    """As the release workflow builds it, which knows the repository's address."""
    address, tree = "https://example.org/owner/name", tmp_path / "tree"
    for name in tracked:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    run(sys.executable, ".github/write_address.py", address, "v0.1.0", folder=tree)
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, tree)
    wheel = contents(one(tmp_path, "*.whl"))
    (metadata,) = (text.decode() for name, text in wheel.items() if name.endswith("/METADATA"))
    targets = re.findall(r"\]\(([^)]+)\)", metadata)
    ours = {target for target in targets if target.startswith(f"{address}/")}
    assert f"{address}/raw/v0.1.0/docs/images/report-case.png" in ours
    paths = [target.split("/v0.1.0/")[1].partition("#")[0] for target in ours]
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [target for target in targets if not re.match("https://|#", target)] == []
    assert f"Project-URL: Homepage, {address}\n" in metadata


def test_a_release_writes_its_address_after_the_tests_and_before_the_build() -> None:
    workflow = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    steps = re.findall(r"tox -e package|write_address\.py|python -m build", workflow)
    assert steps == ["tox -e package", "write_address.py", "python -m build"]


def test_the_citation_is_of_this_version(built: Path) -> None:
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    version = one(built, "*.whl").name.split("-")[1]
    assert f"\nversion: {version}\n" in citation


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


def test_wheel_in_an_empty_environment(built: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", with_pip=True)
    programs = tmp_path / "empty/bin"
    run(programs / "python", "-m", "pip", "install", "--quiet", one(built, "*.whl"))
    assert "baselines" in run(programs / "dlperf", "--help", folder=tmp_path)
    told = run(
        programs / "pytest", "--pyargs", "pytest_dlperf.suites", "-k", "tsm", "--dlperf-list",
        folder=tmp_path,
    )  # fmt: skip
    assert "tsm.tiny-torch-fp32-bs2-1n1c" in told
    # The number of a source report, which is in the wheel beside its suite
    assert "80.222 samples/s (8x-v100-sxm2-32gb)" in told


def test_version_is_the_same_everywhere() -> None:
    spec = tomllib_version((ROOT / "pyproject.toml").read_text("utf-8"))
    assert f'__version__ = "{spec}"' in (ROOT / "pytest_dlperf/__init__.py").read_text("utf-8")


def tomllib_version(text: str) -> str:
    """Return the project's version; Python 3.10 has no reader of TOML."""
    return text.partition('\nversion = "')[2].partition('"')[0]
