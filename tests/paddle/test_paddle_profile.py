"""The profile of a few steps of a Paddle training, in this process."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paddle
import pytest

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker.frameworks.paddle.profile import PaddleProfiler, profile
from tests.helpers.profiled_steps import Framework, calls_of, profile_alike_everywhere

pytestmark = pytest.mark.paddle


class Samples(paddle.io.Dataset):
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> Any:
        return paddle.ones([8]).numpy()


def profiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ProfileRecord:
    profile_alike_everywhere(monkeypatch)
    net = paddle.nn.Sequential(paddle.nn.Linear(8, 8), paddle.nn.ReLU())
    optimizer = paddle.optimizer.SGD(0.1, parameters=net.parameters())
    batches = iter(paddle.io.DataLoader(Samples(), batch_size=4, num_workers=0))

    def step() -> Any:
        x = next(batches)
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    return profile(Framework(), step, [net], folder)  # type: ignore[arg-type]


def test_operators_are_known_by_their_layer_and_parts_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = profiled(tmp_path, monkeypatch)
    calls = calls_of(found, tmp_path, "compute", "waiting for data", "Python and launches")
    assert calls["0", "matmul"] == 1
    assert calls["1", "relu"] == 1
    assert calls["(backward)", "MatmulGradNode"] == 1
    assert calls["optimizer", "sgd_"] == 2
    assert calls["data", "DataLoader"] == 1
    assert "memory" not in found


def test_a_profiler_that_crashes_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def crash(self: Any) -> None:
        raise RuntimeError("CUPTI\nis in use")

    monkeypatch.setattr(PaddleProfiler, "start", crash)
    assert profiled(tmp_path, monkeypatch) == {
        "problem": "paddle.profiler failed: RuntimeError: CUPTI"
    }


def node(name: str, kind: str, begin_us: float, end_us: float, **more: Any) -> Any:
    """Return a node of a profile as Paddle has them."""
    lists = {"children_node": [], "runtime_node": [], "device_node": []}
    times = {"start_ns": begin_us * 1000, "end_ns": end_us * 1000}
    return SimpleNamespace(name=name, type=f"TracerEventType.{kind}", **times, **lists | more)


def test_on_a_gpu_kernels_belong_to_the_operator_that_starts_them():
    kernel = node("sgemm", "Kernel", 5, 9)
    launch = node("cudaLaunchKernel", "CudaRuntime", 1, 2, device_node=[kernel])
    inner = node("matmul kernel launch", "DygraphKernelLaunch", 1, 3, runtime_node=[launch])
    operator = node("matmul dygraph", "Operator", 0, 4, children_node=[inner])
    profiler = PaddleProfiler(on_gpu=True, reduces=True)
    events = list(profiler._events(operator, 1, ""))
    [found] = [event for event in events if event.name == "matmul"]
    assert (found.device_us, found.kernels) == (4.0, ("sgemm",))
    assert [event.name for event in events if event.on_device] == ["sgemm"]
