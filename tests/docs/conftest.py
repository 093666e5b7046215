from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.documents import AUTHOR, ROOT, Ran, run_in_order


@pytest.fixture(scope="session")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this tree."""
    folder = tmp_path_factory.mktemp("wheelhouse")
    source = tmp_path_factory.mktemp("source") / "tree"
    # Without what is not packed, which costs time to walk.
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "_build"))
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source],
        check=True,
    )
    return folder


@pytest.fixture(scope="session")
def environment(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a user's shell has, but for where pip finds this tree's wheel, and how much is run."""
    links = [os.environ.get("PIP_FIND_LINKS", ""), str(wheelhouse)]
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"VIRTUAL_ENV", "PYTHONPATH", "PYTEST_CURRENT_TEST"}
    }
    return {
        **kept,
        **AUTHOR,
        "PIP_FIND_LINKS": " ".join(filter(None, links)),
        "PIP_CONSTRAINT": str(ROOT / "constraints/cpu.txt"),
        "PIP_QUIET": "1",
        "DLPERF_RUNTIME_DIR": str(tmp_path_factory.mktemp("runtime")),
        # Fewer launches than a user has, for the time that it takes; and what a busy machine gave
        # is stored as well, so that the commands after it have what they need.
        "PYTEST_ADDOPTS": "--dlperf-runs=3 --dlperf-reason=tested",
    }


@pytest.fixture(scope="session")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the tutorial is followed; its environment is in it."""
    return tmp_path_factory.mktemp("stranger")


@pytest.fixture(scope="session")
def tutorial(environment: dict[str, str], stranger: Path) -> list[Ran]:
    return list(run_in_order("docs/tutorial.md", stranger, environment))
