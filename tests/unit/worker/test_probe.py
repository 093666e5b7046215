from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_dlperf import worker
from pytest_dlperf.core.wire import PROBE_MARK
from pytest_dlperf.worker.frameworks import nccl_version
from pytest_dlperf.worker.frameworks.paddle import nccl_of_paddle

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
    (line,) = [text for text in done.stdout.splitlines() if text.startswith(PROBE_MARK)]
    found: dict[str, object] = json.loads(line.removeprefix(PROBE_MARK))
    return found


def test_the_standard_library_is_enough(tmp_path: Path):
    found = answer(tmp_path)
    assert found["python"] == platform.python_version()
    assert found["os"]
    assert "framework" not in found


@pytest.mark.parametrize("framework", ["torch", "paddle", "tensorflow", "jax"])
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


@pytest.mark.parametrize(
    ("tell", "told"), [("", None), (", nccl=lambda: '22703'", "2.27.3")], ids=["2.6", "3"]
)
def test_paddle_reports_its_nccl_if_it_can(tmp_path: Path, tell: str, told: str | None):
    (tmp_path / "paddle.py").write_text(
        "from types import SimpleNamespace as N\n"
        "__version__ = '2.6.2'\n"
        "device = N(is_compiled_with_cuda=lambda: True, cuda=N(device_count=lambda: 1))\n"
        f"version = N(cuda=lambda: '11.8', cudnn=lambda: '8.6.0'{tell})\n"
    )
    found = answer(tmp_path, "--framework=paddle")
    assert (found["problem"], found["gpus"], found["nccl"]) == ("", 1, told)


@pytest.mark.parametrize(
    ("horovod", "told"),
    [(None, None), ("raise OSError('undefined symbol')", None),
     ("def nccl_built(): return 0", None), ("def nccl_built(): return 21805", "2.18.5")],
)  # fmt: skip
def test_tensorflow_reports_the_nccl_of_its_horovod(
    tmp_path: Path, horovod: str | None, told: str | None
):
    (tmp_path / "tensorflow.py").write_text(
        "from types import SimpleNamespace as N\n"
        "__version__ = '2.15.1'\n"
        "keras = N()\n"
        "config = N(list_physical_devices=lambda kind: [])\n"
        "sysconfig = N(get_build_info=lambda: {'cuda_version': '12.2'})\n"
    )
    if horovod is not None:
        (tmp_path / "horovod" / "tensorflow").mkdir(parents=True)
        (tmp_path / "horovod" / "tensorflow" / "__init__.py").write_text(horovod)
    found = answer(tmp_path, "--framework=tensorflow")
    assert (found["problem"], found["cuda"], found["keras"]) == ("", "12.2", "2")
    assert found["nccl"] == told


@pytest.mark.parametrize(
    ("code", "version"), [(0, None), (2804, "2.8.4"), (21805, "2.18.5"), (22703, "2.27.3")]
)
def test_nccl_is_written_as_people_write_it(code: int, version: str | None):
    assert nccl_version(code) == version


@pytest.mark.parametrize("told", ["False", "0", False])
def test_a_paddle_without_cuda_has_none(told: object):
    assert nccl_of_paddle(SimpleNamespace(nccl=lambda: told)) is None
