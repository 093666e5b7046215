from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_dlperf import worker
from pytest_dlperf.launch.probe import _MARK
from pytest_dlperf.worker import probe

HOME = str(Path(worker.__file__).parents[2])


def answer(folder: Path, *arguments: str) -> dict[str, object]:
    """Run the probe without any installed package, ``folder`` first on its path."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "pytest_dlperf.worker.probe", *arguments],
        env={"PYTHONPATH": f"{folder}:{HOME}"},
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [text for text in done.stdout.splitlines() if text.startswith(_MARK)]
    found: dict[str, object] = json.loads(line.removeprefix(_MARK))
    return found


def test_both_sides_have_the_same_mark():
    assert probe.MARK == _MARK


def test_the_standard_library_is_enough(tmp_path: Path):
    found = answer(tmp_path)
    assert found["python"] == platform.python_version()
    assert found["os"]
    assert "framework" not in found


@pytest.mark.parametrize("framework", ["torch", "paddle", "tensorflow"])
def test_a_framework_that_is_not_installed(tmp_path: Path, framework: str):
    found = answer(tmp_path, f"--framework={framework}")
    assert (found["framework"], found["framework_version"]) == (framework, None)
    assert found["problem"] == ""


def test_a_framework_that_cannot_be_imported(tmp_path: Path):
    (tmp_path / "torch.py").write_text("raise OSError('libcudnn.so.8: no such file')")
    found = answer(tmp_path, "--framework=torch")
    assert found["problem"] == "OSError: libcudnn.so.8: no such file"


def test_a_framework_that_lacks_a_package_of_its_own(tmp_path: Path):
    (tmp_path / "torch.py").write_text("print('importing'); import sympyy")
    found = answer(tmp_path, "--framework=torch")
    assert found["problem"] == "ModuleNotFoundError: No module named 'sympyy'"


def test_paddle_without_cuda_has_no_versions_of_it(tmp_path: Path):
    (tmp_path / "paddle.py").write_text(
        "from types import SimpleNamespace as N\n"
        "__version__ = '2.6.2'\n"
        "device = N(is_compiled_with_cuda=lambda: False)\n"
        "version = N(cuda=lambda: 'False', cudnn=lambda: 'False')\n"
    )
    found = answer(tmp_path, "--framework=paddle")
    assert (found["framework_version"], found["cuda"], found["gpus"]) == ("2.6.2", None, 0)
