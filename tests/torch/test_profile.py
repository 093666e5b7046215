"""The profile of a few steps: of a training in this process, and with what can go wrong."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker.frameworks import profiling
from pytest_dlperf.worker.frameworks.torch import profile as torch_profile
from pytest_dlperf.worker.frameworks.torch.profile import events_of_history, profile
from pytest_dlperf.worker.step_parts import operators_of
from tests.helpers.profiled_steps import Framework, calls_of, profile_alike_everywhere


@pytest.fixture(autouse=True)
def alike_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    profile_alike_everywhere(monkeypatch)


def profiled(folder: Path) -> tuple[ProfileRecord, int]:
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    framework = Framework(torch.device("cpu"))

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(torch.ones(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    found = profile(framework, step, [net], folder)  # type: ignore[arg-type]
    return found, framework.steps


def test_operators_are_known_by_their_module_and_parts_add_up(tmp_path: Path):
    found, steps = profiled(tmp_path)
    assert steps == 24, "one that says how long it is, 20, and three for the memory"
    names = calls_of(found, tmp_path)
    assert names["0", "aten::addmm"] == 1
    assert names["1", "aten::relu"] == 1
    assert names["0 (backward)", "aten::mm"] == 1
    assert any(path == "optimizer" for path, _ in names)
    places = {one["place"]: one for one in found["memory"]["allocations"]}
    relu = next(place for place in places if place.endswith(": aten::relu"))
    assert "test_profile.py(" in relu, "the program's own frame"
    assert places[relu]["bytes"] == 4 * 8 * 4, "freed after each step"


def test_no_hook_is_left_on_modules(tmp_path: Path):
    profiled(tmp_path)
    module = torch.nn.modules.module
    assert not module._global_forward_pre_hooks
    assert not module._global_forward_hooks


@pytest.mark.parametrize("method", ["start", "stop"])
def test_a_profiler_that_crashes_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
):
    def crash(self: Any) -> None:
        raise RuntimeError("CUPTI\nis in use")

    monkeypatch.setattr(torch.profiler.profile, method, crash)
    found, _ = profiled(tmp_path)
    assert found == {"problem": "torch.profiler failed: RuntimeError: CUPTI"}


def test_a_step_with_too_many_events_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profiling, "MOST_EVENTS", 10)
    found, steps = profiled(tmp_path)
    assert "more than 10 on any rank" in found["problem"]
    assert steps == 1


def test_fewer_steps_are_kept_where_each_has_many_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    complete, _ = profiled(tmp_path)
    (events,) = {round(sum(o["calls"] for o in complete["operators"]))}
    monkeypatch.setattr(profiling, "MOST_EVENTS", 4 * events)
    found, _ = profiled(tmp_path)
    assert 1 <= len(found["windows"]) < 5
    assert f"{len(found['windows'])} of 5 steps" in found["note"]


def test_allocations_of_steps_with_many_events_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    complete, _ = profiled(tmp_path)
    (events,) = {round(sum(o["calls"] for o in complete["operators"]))}
    assert "memory" in complete
    monkeypatch.setattr(profiling, "MOST_EVENTS", 2 * events)
    found, _ = profiled(tmp_path)
    assert found["windows"]
    assert "memory" not in found
    assert "no allocations were recorded, as a step has too many events" in found["note"]


def test_without_room_there_is_a_profile_and_no_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1))
    found, _ = profiled(tmp_path)
    assert found["windows"]
    assert "nearly full" in found["note"]
    assert "trace" not in found
    assert not list(tmp_path.iterdir())


def test_a_trace_too_large_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(profiling, "TRACE_EVENTS", 5)
    found, _ = profiled(tmp_path)
    assert "no trace was written" in found["note"]
    assert not list(tmp_path.iterdir())


def test_the_history_of_an_allocator_is_read():
    frames = [
        {"filename": f"{Path(torch.__file__).parent}/nn/linear.py", "line": 1, "name": "forward"},
        {"filename": "/home/me/net/train.py", "line": 7, "name": "step"},
    ]
    entries = [
        {"action": "alloc", "addr": 1, "size": 512, "frames": frames},
        {"action": "free_requested", "addr": 1, "size": 512, "frames": []},
        {"action": "free_completed", "addr": 1, "size": 512, "frames": []},
    ]
    found = [(one.address, one.bytes, one.place) for one in events_of_history(entries)]
    assert found == [(1, 512, "net/train.py(7): step"), (1, -512, "")]


def test_allocations_that_cannot_be_recorded_are_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail() -> None:
        raise RuntimeError("no history here")

    monkeypatch.setattr(torch_profile, "_record_on_cpu", fail)
    found, steps = profiled(tmp_path)
    assert steps == 24, "the other ranks do these steps"
    assert "no allocations were recorded" in found["note"]
    assert found["windows"]


def _recorded(name: str, begin: float, end: float, **fields: object) -> SimpleNamespace:
    """Return an event as ``torch.profiler`` has it; all are said to be of thread 1."""
    device = torch.autograd.DeviceType.CUDA if fields.pop("on_gpu", False) else None
    return SimpleNamespace(
        name=name, device_type=device or torch.autograd.DeviceType.CPU, thread=1, sequence_nr=-1,
        time_range=SimpleNamespace(start=begin, end=end), is_async=False, kernels=[], **fields,
    )  # fmt: skip


@pytest.mark.parametrize("says_so", [True, False], ids=["now", "older"])
def test_what_follows_an_optimizer_is_not_within_its_copy_on_the_gpu(says_so: bool):
    # As PyTorch 2.11 recorded it on an H100: the copy begins while the host is in the optimizer
    def annotation(begin: float, end: float, **fields: object) -> SimpleNamespace:
        said = {"is_user_annotation": True} if says_so else {}
        return _recorded("Optimizer.step#SGD.step", begin, end, **said, **fields)

    events = torch_profile.events_of(
        [
            annotation(0, 100),
            annotation(50, 900, on_gpu=True),
            _recorded("aten::item", 200, 300),
            _recorded("sgd_kernel", 60, 700, on_gpu=True),
        ]
    )
    assert [one.name for one in events if one.on_device] == ["sgd_kernel"]
    [item] = [
        one for one in operators_of(events, [((0.0, 1000.0), 1)]) if one["name"] == "aten::item"
    ]
    assert item["path"] == ""
