"""The profile of a few steps: of a training in this process, and with what can go wrong."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_dlperf.core.wire_profile import ProfileRecord
from pytest_dlperf.worker.frameworks.torch import profile as profiling


class Framework:
    """What a profile needs of a framework, for one rank on a CPU."""

    def __init__(self) -> None:
        feed = SimpleNamespace(take_wait=lambda: None)
        self.job = SimpleNamespace(device=torch.device("cpu"), world_size=1, rank=0, feed=feed)
        self.steps = 0

    def synchronise(self) -> None:
        pass

    def keep_loss(self, loss: Any) -> Any:
        self.steps += 1
        return loss


def profiled(folder: Path) -> tuple[ProfileRecord, int]:
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    framework = Framework()

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(torch.ones(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    found = profiling.profile(framework, step, [net], folder)  # type: ignore[arg-type]
    return found, framework.steps


def test_operators_are_known_by_their_module_and_parts_add_up(tmp_path: Path):
    found, steps = profiled(tmp_path)
    assert steps == 6, "one that counts the events, and five"
    assert len(found["windows"]) == 3, "the shortest and the longest are left out"
    for window in found["windows"]:
        assert window["seconds"] == sum(window["parts"].values())
    names = {(one["path"], one["name"]): one["calls"] for one in found["operators"]}
    assert names["0", "aten::addmm"] == 1
    assert names["1", "aten::relu"] == 1
    assert names["0 (backward)", "aten::mm"] == 1
    assert any(path == "optimizer" for path, _ in names)
    with gzip.open(tmp_path / found["trace"]) as file:
        assert json.load(file)["traceEvents"]
    assert "note" not in found


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
    monkeypatch.setattr(profiling, "_TRACE_EVENTS", 5)
    found, _ = profiled(tmp_path)
    assert "no trace was written" in found["note"]
    assert not list(tmp_path.iterdir())
