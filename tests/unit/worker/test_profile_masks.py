"""Secrets that a program's names hold are masked in a profile and in its trace."""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.core.wire_profile import LiveAllocation, LiveMemory
from pytest_dlperf.worker import host_stacks
from pytest_dlperf.worker.frameworks import profiling
from pytest_dlperf.worker.step_parts import MODULE, TraceEvent

SECRET = 'hunter2-"quoted"'


class Profiler:
    """One whose events, places and trace name a secret."""

    name = "fake.profiler"
    fails = False

    def start(self) -> None:
        if self.fails:
            raise RuntimeError(f"no file {SECRET}")

    def annotate(self, _name: str) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def stop(self) -> list[TraceEvent]:
        return [
            TraceEvent(profiling.STEP, 0, 100),
            TraceEvent(f"{MODULE}layer.{SECRET}", 10, 90),
            TraceEvent(f"load::{SECRET}", 20, 80, kernels=(f"kernel_{SECRET}",)),
        ]

    def write_trace(self, file: Path) -> None:
        with gzip.open(file, "wt") as trace:
            trace.write('{"name": "load::hunter2-\\"quoted\\""},\n' * 2)

    def live_memory(self) -> Callable[[], LiveMemory]:
        at = LiveAllocation(place=f"{SECRET}/net.py(3): f: aten::mm", bytes=8, count=1)
        return lambda: LiveMemory(peak_bytes=8, allocations=[at])


def profiled(folder: Path, profiler: Profiler, monkeypatch: pytest.MonkeyPatch) -> Any:
    sampler = SimpleNamespace(
        start=lambda: None,
        stop=lambda _steps: [{"frames": f"step ({SECRET}/net.py:3)", "seconds": 1.0}],
    )
    monkeypatch.setattr(host_stacks, "sampler", lambda *_: sampler)
    job = SimpleNamespace(world_size=1, rank=0, feed=SimpleNamespace(take_wait=lambda: None))
    framework: Any = SimpleNamespace(
        job=job, synchronise=lambda: None, keep_loss=lambda loss: loss
    )
    return profiling.profile(framework, lambda: 0.0, profiler, folder, on_gpu=False)


def test_nothing_of_a_profile_has_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MODEL_TOKEN", SECRET)
    found = profiled(tmp_path, Profiler(), monkeypatch)
    assert found["operators"][0]["path"] == "layer.…"
    assert found["operators"][0]["kernels"] == ["kernel_…"]
    assert found["memory"]["allocations"][0]["place"] == "…/net.py(3): f: aten::mm"
    assert found["stacks"][0]["frames"] == "step (…/net.py:3)"
    assert "hunter2" not in str(found)
    with gzip.open(tmp_path / found["trace"], "rt", encoding="utf-8") as trace:
        assert trace.read() == '{"name": "load::…"},\n' * 2
    assert [path.name for path in tmp_path.iterdir()] == [found["trace"]]


def test_nor_has_a_profile_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MODEL_TOKEN", SECRET)
    monkeypatch.setattr(Profiler, "fails", True)
    found = profiled(tmp_path, Profiler(), monkeypatch)
    assert found == {"problem": "fake.profiler failed: RuntimeError: no file …"}


def test_without_a_secret_a_trace_is_as_the_profiler_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MODEL_NAME", SECRET)
    found = profiled(tmp_path, Profiler(), monkeypatch)
    with gzip.open(tmp_path / found["trace"], "rt") as trace:
        assert "hunter2" in trace.read()


def test_a_number_is_no_secret_of_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MODEL_TOKEN", SECRET)
    monkeypatch.setenv("MAX_TOKENS", "131072")
    monkeypatch.setattr(
        Profiler,
        "write_trace",
        lambda _, file: file.write_bytes(gzip.compress(b'{"ts": 9131072}')),
    )
    found = profiled(tmp_path, Profiler(), monkeypatch)
    assert gzip.decompress((tmp_path / found["trace"]).read_bytes()) == b'{"ts": 9131072}'
