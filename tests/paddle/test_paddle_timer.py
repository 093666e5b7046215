"""Laps on a GPU, by the events of the Paddle that is there: 2.6's measure no time, 3's do."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import paddle
import pytest

from pytest_dlperf.worker.frameworks import on_cpu
from pytest_dlperf.worker.frameworks.paddle import framework
from pytest_dlperf.worker.frameworks.paddle.framework import Paddle

pytestmark = pytest.mark.paddle


class Event3:
    """An event of Paddle 3: it knows when it was recorded."""

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at_s = time.perf_counter()

    def elapsed_time(self, end: Event3) -> float:
        return (end.at_s - self.at_s) * 1000


class Event26(Event3):
    """One of Paddle 2.6, where the method is a stub."""

    def elapsed_time(self, end: Event3) -> int:
        return 0


class EventNone:
    """One that has no such method."""

    def __init__(self, *, enable_timing: bool) -> None:
        pass

    def record(self) -> None:
        pass


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What waited for the GPU, which is not there."""
    found: list[str] = []
    monkeypatch.setattr(paddle.device, "synchronize", lambda: found.append("wait"))
    return found


@pytest.mark.parametrize(
    ("event", "tells"), [(Event3, True), (Event26, False), (EventNone, False)]
)
def test_whether_events_measure_time_is_found_by_trying(
    event: type, tells: bool, waits: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(paddle.device, "Event", event)
    assert framework.events_tell_time() is tells


def test_laps_by_events_wait_once_at_the_end(waits: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(paddle.device, "Event", Event3)
    laps = framework.gpu_timer(events=True)
    laps.start()
    for _ in range(3):
        laps.lap()
    assert waits == []
    assert all(wall_s > 0 for wall_s, _ in laps.read())
    assert waits == ["wait"]


def test_laps_by_the_host_wait_for_the_gpu_each_time(waits: list[str]):
    laps = framework.gpu_timer(events=False)
    laps.start()
    for lap in range(3):
        laps.lap()
        assert len(waits) == 2 + lap
    assert len(laps.read()) == 3
    assert all(wall_s > 0 for wall_s, _ in laps.read())


@pytest.mark.parametrize(("event", "events"), [(Event3, True), (Event26, False)])
def test_a_delay_is_as_long_as_its_timer_says(
    event: type, events: bool, waits: list[str], monkeypatch: pytest.MonkeyPatch
):
    """A product takes a tenth of a second by either clock, and half a second is asked for."""
    monkeypatch.setattr(paddle.device, "Event", event)
    now_s, products = [0.0], []

    def matmul(_left: object, _right: object) -> None:
        products.append("product")
        now_s[0] += 0.1

    monkeypatch.setattr(paddle, "matmul", matmul)
    monkeypatch.setattr(time, "perf_counter", lambda: now_s[0])
    delay = framework.gpu_delay(0.5, events=events)
    products.clear()
    delay(0.0)
    assert len(products) == 5


@pytest.mark.parametrize(
    ("event", "version", "told"),
    [
        (Event26, {}, (on_cpu.HOST_CLOCK, None)),
        (Event3, {"nccl": lambda: "22703"}, (on_cpu.DEVICE_EVENTS, "2.27.3")),
    ],
    ids=["2.6", "3"],
)
def test_what_a_rank_on_a_gpu_reports(
    event: type,
    version: dict,
    told: tuple,
    waits: list[str],
    monkeypatch: pytest.MonkeyPatch,
):
    module = sys.modules["pytest_dlperf.worker.frameworks.paddle.framework"]
    monkeypatch.setattr(module, "_device", lambda _arguments: "cpu")
    monkeypatch.setattr(paddle.device, "Event", event)
    monkeypatch.setattr(
        paddle.device.cuda, "get_device_properties", lambda: SimpleNamespace(name="G")
    )
    kept = SimpleNamespace(cuda=lambda: "11.8", cudnn=lambda: "8.6.0", **version)
    monkeypatch.setattr(paddle, "version", kept)
    # The worker sets it, for the life of its process.
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "1")
    arguments = SimpleNamespace(
        rank=0, local_rank=0, world_size=1, device="gpu", precision="fp32", threads_per_rank=1,
        batch_size_per_device=2, size="tiny", seed=0, options={}, parallel="", data=None,
        devices_per_process=1,
    )  # fmt: skip
    facts = Paddle(arguments).facts()
    assert (facts["timing"], facts["nccl"]) == told
