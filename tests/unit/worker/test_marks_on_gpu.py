"""Marks in a user's program on a GPU: timed by events, a canary where the program asks."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.core.wire import MarkSettings
from pytest_dlperf.worker import marks
from tests.helpers.simulated_gpu import (
    STEP_S,
    SimulatedGpu,
    cuda_of,
    finished,
    records,
    step_of,
)


def marked(
    folder: Path,
    gpu: SimulatedGpu,
    monkeypatch: pytest.MonkeyPatch,
    canaries: tuple[int, ...] = (),
) -> dict[str, Any]:
    module = ModuleType("torch")
    module.__dict__.update(
        __version__="9.1",
        cuda=cuda_of(gpu),
        version=SimpleNamespace(cuda="12.4", hip=None),
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 90100)),
        distributed=SimpleNamespace(is_available=lambda: False, is_nccl_available=lambda: True),
        device=lambda kind, number: f"{kind}:{number}",
    )
    monkeypatch.setitem(sys.modules, "torch", module)
    settings = MarkSettings(
        records=str(folder), iterations=30, warmup=10, work=4, world_size=1,
        place=("RANK", "LOCAL_RANK", "WORLD_SIZE"), framework="torch", precision="bf16",
        on_gpu=True,
    )  # fmt: skip
    program = marks.Marks(settings)
    step = step_of(gpu)
    for index in range(30):
        if index in canaries:
            program.canary()
        with program.step(None):
            step()
    return records(folder)


def test_marks_on_a_gpu_are_timed_by_events(
    tmp_path: Path, gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch
):
    """A10: single laps were times of launches, and the last one held the rest of the window."""
    found = marked(tmp_path, gpu, monkeypatch)
    assert [s["seconds"] for s in found["span"]][11:] == pytest.approx([STEP_S] * 19, rel=1e-3)
    laps_s = sum(s["seconds"] for s in found["span"][10:])
    assert found["window"][0]["seconds"] == pytest.approx(laps_s, rel=5e-3)
    assert finished(tmp_path) == 30


def test_marks_on_a_gpu_name_its_libraries_and_the_clock(
    tmp_path: Path, gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch
):
    [framework] = marked(tmp_path, gpu, monkeypatch)["framework"]
    assert framework["timing"] == "device events"
    assert framework["device_id"] == "8932f937"
    assert (framework["cuda"], framework["cudnn"], framework["nccl"]) == ("12.4", 90100, "2.21.5")
    assert framework["device_name"] == "NVIDIA H100 80GB HBM3"


@pytest.fixture
def measured(gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what the canary of PyTorch's GPUs is asked for; it takes a second of this one."""
    asked: list[Any] = []

    def measure_canary(device: str, precision: str, **how: bool) -> dict[str, float | None]:
        asked.append((device, precision, how))
        gpu.kernel(1.0)
        gpu.synchronize()
        return {"sustained_matmul_gflop_per_s": 700e3, "sustained_all_reduce_gb_per_s": None}

    module = ModuleType("framework")
    module.__dict__.update(measure_canary=measure_canary)
    monkeypatch.setitem(sys.modules, "pytest_dlperf.worker.frameworks.torch.framework", module)
    return asked


def test_marks_on_a_gpu_measure_it_where_the_program_asks(
    tmp_path: Path, gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch, measured: list[Any]
):
    """In its own type, alone: the program's other ranks may be anywhere."""
    found = marked(tmp_path, gpu, monkeypatch, canaries=(0,))
    [canary] = found["canary"]
    assert (canary["when"], canary["sustained_matmul_gflop_per_s"]) == ("before", 700e3)
    assert measured == [("cuda:0", "bf16", {"on_gpu": True, "links": False})]
    assert [s["seconds"] for s in found["span"]] == pytest.approx([STEP_S] * 30, rel=0.06)


def test_marks_on_a_gpu_do_not_measure_it_unasked(
    tmp_path: Path, gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch, measured: list[Any]
):
    assert "canary" not in marked(tmp_path, gpu, monkeypatch)
    assert measured == []


@pytest.mark.parametrize("step", [1, 15])
def test_a_canary_within_the_training_is_refused(
    tmp_path: Path,
    gpu: SimulatedGpu,
    monkeypatch: pytest.MonkeyPatch,
    measured: list[Any],
    step: int,
):
    with pytest.raises(RuntimeError, match="call it before the first step"):
        marked(tmp_path, gpu, monkeypatch, canaries=(step,))
    assert records(tmp_path)["failure"][0]["code"] == "exception"
    assert measured == []


def test_marks_where_events_measure_no_time_wait_for_each_step(
    tmp_path: Path, gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch
):
    """As in Paddle 2.6."""
    monkeypatch.setattr("tests.helpers.simulated_gpu.Event.elapsed_time", lambda begin, end: 0)
    found = marked(tmp_path, gpu, monkeypatch)
    assert found["framework"][0]["timing"] == "host clock"
    assert min(s["seconds"] for s in found["span"][10:]) >= STEP_S
