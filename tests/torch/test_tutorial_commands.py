"""The commands of README and tutorial with the PyTorch that is here, which is not installed again.

In an environment of their own, and with the wheel, they are run by tests/docs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.helpers.documents import AUTHOR, ROOT, check_tutorial, run_in_order

pytestmark = pytest.mark.torch
#: `pip install` has been done here, and a self-test has a place of its own.
LEFT_OUT = "-m venv|pip install|--dlperf-selftest"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A user's shell, in whose folder the programs are where the tutorial has them."""
    programs = tmp_path / "stranger/.venv/bin"
    programs.mkdir(parents=True)
    for name in ("pytest", "dlperf"):
        (programs / name).symlink_to(Path(sys.executable).with_name(name))
    return {
        **os.environ,
        **AUTHOR,
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT),
        "DLPERF_RUNTIME_DIR": str(tmp_path / "runtime"),
        # One launch each; what a busy machine gave is stored as well, for the commands after it.
        "PYTEST_ADDOPTS": "--dlperf-runs=1 --dlperf-max-runs=1 --dlperf-reason=tested "
        "-p tests.helpers.no_repeats -k fp32",
    }


# Ten trainings; README's command, which .ci/run runs, and the documents' tests on simulated time
# have the same paths.
@pytest.mark.nightly
def test_tutorial(tmp_path: Path, environment: dict[str, str]) -> None:
    ran = list(
        run_in_order("docs/tutorial.md", tmp_path / "stranger", environment, leave_out=LEFT_OUT)
    )
    check_tutorial(ran, tmp_path / "stranger")


def test_readme(tmp_path: Path, environment: dict[str, str]) -> None:
    [ran] = run_in_order("README.md", tmp_path / "stranger", environment, leave_out=LEFT_OUT)
    ran.check()
    assert ran.verdict
    assert "1 written to the baselines" in ran.output
