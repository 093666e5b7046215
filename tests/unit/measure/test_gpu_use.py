"""Which GPUs a layout uses, and who else is on them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_dlperf.core.errors import CaseError
from pytest_dlperf.core.option_names import OF_PYTEST, OptionNames, command_options
from pytest_dlperf.flow import holding
from pytest_dlperf.flow.holding import GpuUse
from pytest_dlperf.measure import nvml
from pytest_dlperf.measure.nvml import GpuProcesses
from pytest_dlperf.measure.visible_gpus import gpus_of
from tests.helpers.record_files import case

FAKES = Path(__file__).parents[2] / "fakes" / "nvml"
GPUS = [
    GpuProcesses(index=i, uuid=uuid, memory_by_process={})
    for i, uuid in enumerate(["GPU-aa11", "GPU-aa22", "GPU-bb33", "GPU-cc44"])
]
SAME = ["V100"] * 4
#: A process that is on every machine, and of no session.
FOREIGN = 1


@pytest.mark.parametrize(
    ("count", "visible", "found"),
    [
        (1, None, [0]),
        (4, None, [0, 1, 2, 3]),
        (2, "3,1", [3, 1]),
        (1, "2", [2]),
        (2, "GPU-bb,GPU-aa22", [2, 1]),
        (2, "GPU-aa,1", []),  # two GPUs begin so
        (3, "1,7,2", [1]),
        (2, "", []),
    ],
)
def test_the_gpus_of_a_layout(count: int, visible: str | None, found: list[int]):
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert gpus_of(count, GPUS, SAME, environ) == found


def test_gpus_that_cannot_be_identified():
    assert "MIG" in gpus_of(1, GPUS, SAME, {"CUDA_VISIBLE_DEVICES": "MIG-1"})
    mixed = ["V100", "T4", "T4", "T4"]
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in gpus_of(1, GPUS, mixed, {})
    assert gpus_of(1, GPUS, mixed, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}) == [0]
    assert gpus_of(1, GPUS, mixed, {"CUDA_VISIBLE_DEVICES": "GPU-bb33"}) == [2]
    assert gpus_of(4, GPUS, mixed, {}) == [0, 1, 2, 3]


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("FAKE_NVML", str(tmp_path / "nvml.json"))
    monkeypatch.syspath_prepend(str(FAKES))
    sys.modules.pop("pynvml", None)
    monkeypatch.setattr(holding, "_SETTLE_S", 0.0)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nvml.open_nvml.cache_clear()
    yield tmp_path / "nvml.json"
    nvml.open_nvml.cache_clear()
    sys.modules.pop("pynvml", None)


def gpus(*processes: list[list[int]] | None) -> str:
    found: list[dict[str, Any]] = [{"uuid": f"GPU-{i}"} for i in range(len(processes))]
    for gpu, told in zip(found, processes, strict=True):
        gpu |= {} if told is None else {"processes": told}
    return json.dumps(found)


def refuse(layout: str, **values: Any) -> list[str]:
    said: list[str] = []
    GpuUse(choice="refuse", **values).await_others(case(layout), said.append)
    return said


def test_only_the_gpus_of_the_layout_count(driver: Path, monkeypatch: pytest.MonkeyPatch):
    driver.write_text(gpus([], [[FOREIGN, 5]]))
    assert refuse("1n1g") == []
    with pytest.raises(CaseError, match=f"pid {FOREIGN} .*on GPU 1"):
        refuse("1n2g")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(CaseError, match=f"pid {FOREIGN} .*on GPU 1"):
        refuse("1n1g")


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        (
            OF_PYTEST,
            "; end it, name other GPUs with CUDA_VISIBLE_DEVICES, or measure anyway with "
            "--dlperf-busy-gpus=ignore",
        ),
        (
            command_options(frozenset({"--gpus"})),
            "; end it, or name other GPUs with CUDA_VISIBLE_DEVICES",
        ),
    ],
)
def test_nobody_is_advised_an_option_that_he_lacks(
    driver: Path, options: OptionNames, remedy: str
):
    driver.write_text(gpus([[FOREIGN, 5]]))
    with pytest.raises(CaseError) as error:
        refuse("1n1g", options=options)
    assert str(error.value).endswith(remedy)


@pytest.mark.parametrize(
    "prefix",
    [("docker", "run", "--gpus", "device=3", "image"), ("env", "NVIDIA_VISIBLE_DEVICES=3")],
)
def test_a_prefix_that_chooses_gpus_leaves_them_unknown(driver: Path, prefix: tuple[str, ...]):
    driver.write_text(gpus([[FOREIGN, 5]]))
    with pytest.raises(CaseError, match="the prefix chooses GPUs itself"):
        refuse("1n1g", prefix=prefix)
    with pytest.raises(CaseError, match="on GPU 0"):
        refuse("1n1g", prefix=("docker", "run", "--gpus=all", "image"))


def test_what_the_session_itself_has_on_a_gpu_is_not_waited_for(
    driver: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(holding.nvml, "counts_our_processes", lambda: True)
    driver.write_text(gpus([[os.getpid(), 5]]))
    assert refuse("1n1g") == []


def test_a_driver_that_lists_no_processes_is_no_free_gpu(driver: Path):
    driver.write_text(gpus(None))
    with pytest.raises(CaseError, match="does not list the processes of GPU 0"):
        refuse("1n1g")
    said: list[str] = []
    use = GpuUse()
    use.await_others(case("1n1g"), said.append)
    use.await_others(case("1n1g"), said.append)
    assert said == [
        "whether others use its GPUs cannot be seen: the driver does not list the processes of "
        "GPU 0"
    ]


def test_a_process_is_named_without_its_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(holding, "counts_our_processes", lambda: True)
    script = tmp_path / "train.py"
    script.write_text("print(flush=True)\ninput()\n")
    process = subprocess.Popen(
        [sys.executable, str(script), "--token=secret"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.readline()
    words = holding.describe_process(process.pid)
    process.communicate(b"\n")
    assert words.startswith(f"pid {process.pid} (")
    assert words.endswith(" train.py)")
    assert "secret" not in words
    assert holding.describe_process(process.pid) == f"pid {process.pid}"
    monkeypatch.setattr(holding, "counts_our_processes", lambda: False)
    assert "of the host, which this container cannot look at" in holding.describe_process(7)
