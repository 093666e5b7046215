"""pytest runs where no framework is, in an environment of its own; the ranks' one has torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.helpers.bare_python import make_bare_python
from tests.helpers.user_folder import HERE, Folder

pytestmark = pytest.mark.torch


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """An interpreter that has pytest, and no torch."""
    return make_bare_python(tmp_path / "bare")


# The gate has an interpreter without a framework in tests/plugin, with a launcher that is a fake.
@pytest.mark.nightly
def test_it_is_probed_and_trains(folder: Folder, bare_python: Path):
    folder.write(layout="1n1c")
    done = subprocess.run(
        [
            bare_python, "-m", "pytest", "-p", "pytest_dlperf.plugin", "-p", "no:cacheprovider",
            "--dlperf-json=r.json", f"--dlperf-python={sys.executable}", "-n2",
            "--dlperf-prefix=nice -n 1",
        ],
        cwd=folder.path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])])},
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lacks_torch = subprocess.run(
        [bare_python, "-c", "import torch"], capture_output=True, text=True, check=False
    )
    assert "No module named 'torch'" in lacks_torch.stderr
    [outcome] = json.loads((folder.path / "r.json").read_text(encoding="utf-8"))["outcomes"]
    assert outcome["measurement"] is not None, outcome["judgement"]["reason"]
    assert outcome["measurement"]["conditions"]["dtype"] == "float32"
    assert all(len(run["step_seconds"]) == 30 for run in outcome["measurement"]["runs"])
    assert outcome["environment"]["software"]["torch"] == torch.__version__
    assert folder.ours() == []
