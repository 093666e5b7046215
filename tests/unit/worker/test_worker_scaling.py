"""What the worker measures after the window, on made clocks and modules."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.worker import scaling
from pytest_dlperf.worker.frameworks import collectives
from pytest_dlperf.worker.frameworks.collectives import DirectCalls


class Clock:
    """Time that passes where somebody says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def pass_(self, seconds: float) -> None:
        self.now_s += seconds


class Timer:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.laps: list[tuple[float, float]] = []

    def start(self) -> None:
        self.begin_s = self.clock.now_s

    def lap(self) -> None:
        self.laps.append((self.clock.now_s - self.begin_s, 0.0))
        self.begin_s = self.clock.now_s

    def read(self) -> list[tuple[float, float]]:
        return self.laps


class Framework:
    """One rank of two alike, whose all-reduce takes a latency and time for each byte."""

    job = SimpleNamespace(world_size=2, feed=SimpleNamespace(take_wait=lambda: None))

    def __init__(self, clock: Clock, bytes_per_s: float = 1e9, latency_s: float = 1e-5) -> None:
        self.clock, self.bytes_per_s, self.latency_s = clock, bytes_per_s, latency_s
        self.reduced: list[int] = []
        self.module: Any = None
        self.wait_s = 0.0

    def timer(self) -> Timer:
        return Timer(self.clock)

    def synchronise(self) -> None:
        self.clock.pass_(self.wait_s)

    def barrier(self) -> None:
        # As the frameworks' own: a collective, which is not the workload's
        if self.module is not None:
            self.module.all_reduce()

    def mean_over_ranks(self, value: float) -> float:
        return value

    def all_reduce_of(self, size_bytes: int) -> Any:
        def reduce() -> None:
            self.reduced.append(size_bytes)
            self.clock.pass_(self.latency_s + size_bytes / self.bytes_per_s)

        return reduce


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(scaling.time, "perf_counter", lambda: made.now_s)
    return made


def test_a_fast_link_is_measured_at_all_sizes(clock: Clock) -> None:
    framework = Framework(clock, bytes_per_s=1e9)
    rates = scaling.all_reduce_gb_per_s(framework, scaling.SIZES["cpu"])
    assert list(rates) == [2**16, 2**20, 2**22, 2**24]
    assert rates[2**24] == pytest.approx(1.0, rel=0.01)
    assert rates[2**16] < rates[2**24], "latency weighs more in a small message"
    assert clock.now_s < 0.5


def test_links_between_gpus_are_measured_with_larger_messages(clock: Clock) -> None:
    """B10: of 16 MiB a latency of 60 us is half of the time, of 256 MiB 6 %."""
    framework = Framework(clock, bytes_per_s=300e9, latency_s=6e-5)
    rates = scaling.all_reduce_gb_per_s(framework, scaling.SIZES["gpu"])
    assert list(rates) == [2**16, 2**20, 2**22, 2**24, 2**26, 2**28]
    assert rates[2**24] < 0.5 * 300 < 0.9 * 300 < rates[2**28]
    assert clock.now_s < 0.5


def test_many_small_messages_are_waited_for_once(clock: Clock) -> None:
    """B10: 64 KiB between GPUs take less than the host needs to wait for them."""
    framework = Framework(clock, bytes_per_s=300e9, latency_s=1e-5)
    framework.wait_s = 2e-5
    each = scaling.all_reduce_gb_per_s(framework, [2**16])[2**16]
    many = scaling.all_reduce_gb_per_s(framework, [2**16], launches=20)[2**16]
    assert each == pytest.approx(2**16 / 1e9 / (3e-5 + 2**16 / 300e9))
    assert many == pytest.approx(2**16 / 1e9 / (1.1e-5 + 2**16 / 300e9))


@pytest.mark.parametrize("launches", [1, 20])
@pytest.mark.parametrize("bytes_per_s", [1e7, 1e9, 300e9])
def test_many_messages_stay_within_the_time(
    clock: Clock, bytes_per_s: float, launches: int
) -> None:
    framework = Framework(clock, bytes_per_s)
    scaling.all_reduce_gb_per_s(framework, scaling.SIZES["gpu"], launches=launches)
    assert clock.now_s < 0.5


@pytest.mark.parametrize("bytes_per_s", [1e5, 1e6, 12.5e6, 1e9, 1e11])
def test_a_slow_link_leaves_out_what_takes_too_long(clock: Clock, bytes_per_s: float) -> None:
    framework = Framework(clock, bytes_per_s)
    rates = scaling.all_reduce_gb_per_s(framework, scaling.SIZES["cpu"])
    smallest_s = 2**16 / bytes_per_s
    assert 2**16 in rates, "the smallest is measured however slow the link is"
    assert clock.now_s < max(0.5, 3 * smallest_s)
    # 100 Mbit: 16 MiB would take 1.3 s
    assert (2**24 in rates) is (bytes_per_s >= 1e9)
    assert all(framework.reduced.count(size) >= 2 for size in rates)


class Net:
    """A training whose step works for a while, then averages; and calls a collective itself."""

    def __init__(self, clock: Clock, *, work_s: float, average_s: float, direct_s: float) -> None:
        self.clock, self.averages = clock, True
        self.work_s, self.average_s = work_s, average_s
        self.module = SimpleNamespace(all_reduce=lambda **_: clock.pass_(direct_s))
        self.direct = direct_s > 0
        self.options: dict[str, Any] = {}

    def step(self) -> None:
        self.clock.pass_(self.work_s)
        if self.averages:
            self.clock.pass_(self.average_s)
        if self.direct:
            self.module.all_reduce(**self.options)

    def no_sync(self) -> Net:
        return self

    def __enter__(self) -> None:
        self.averages = False

    def __exit__(self, *_: object) -> None:
        self.averages = True

    def calls(self, framework: Framework) -> DirectCalls:
        return DirectCalls(
            self.module, ["all_reduce", "absent"], framework.timer, lambda o: bool(o.get("early"))
        )


def sampled(net: Net, *, wrapped: bool = True) -> dict[str, Any]:
    framework = Framework(net.clock)
    framework.module = net.module
    wrappers = [net] if wrapped else []
    return collectives.sample(framework, net.step, wrappers, net.calls(framework))


def test_averaging_and_collectives_of_the_workload_are_both_counted() -> None:
    found = sampled(Net(Clock(), work_s=0.06, average_s=0.03, direct_s=0.01))
    assert found["step_seconds"] == pytest.approx(0.10)
    assert found["own_seconds"] == pytest.approx(0.06)
    assert found["collective_seconds"] == pytest.approx(0.04)
    assert found["collective"] == "collectives"
    assert found["iterations"] == 3


def test_averaging_alone_is_called_an_all_reduce() -> None:
    net = Net(Clock(), work_s=0.006, average_s=0.004, direct_s=0.0)
    found = sampled(net)
    assert found["collective_seconds"] == pytest.approx(0.004)
    assert found["collective"] == "all-reduce"
    assert found["iterations"] == 15, "short steps are sampled more often"
    assert net.averages, "put back"


def test_what_cannot_be_distinguished_is_not_known() -> None:
    early = Net(Clock(), work_s=0.06, average_s=0.03, direct_s=0.01)
    early.options = {"early": True}
    nothing = Net(Clock(), work_s=0.06, average_s=0.03, direct_s=0.0)
    for found in (sampled(early), sampled(nothing, wrapped=False)):
        assert found["step_seconds"] > 0
        assert found["own_seconds"] is None
        assert found["collective_seconds"] is None


def test_a_collective_made_of_others_counts_once() -> None:
    clock, module = Clock(), SimpleNamespace()
    module.all_reduce = lambda: clock.pass_(0.25)

    def barrier() -> None:
        module.all_reduce()

    module.barrier = barrier
    originals = dict(vars(module))
    calls = DirectCalls(module, originals, lambda: Timer(clock), lambda _: False)
    with calls:
        module.barrier()
        calls.end_step()
        calls.end_step()
        module.all_reduce()
        module.all_reduce()
        calls.end_step()
    assert calls.seconds_by_step() == [0.25, 0.0, 0.5]
    assert vars(module) == originals


class Records:
    def __init__(self) -> None:
        self.written: dict[str, dict[str, Any]] = {}

    def write(self, **records: dict[str, Any]) -> None:
        self.written |= records


def test_a_workload_without_further_steps_is_reported_and_ends_nothing(
    clock: Clock, tmp_path: Path
) -> None:
    framework: Any = Framework(clock)

    def sample_collectives(step: Any, folder: Path) -> dict[str, Any]:
        return step()

    def step() -> Any:
        raise ValueError("tried to step 151 times")

    framework.sample_collectives = sample_collectives
    records: Any = Records()
    scaling.write_scaling(framework, step, records, tmp_path, "cpu")
    assert records.written["collectives"] == {"problem": "ValueError: tried to step 151 times"}
    assert set(records.written["all_reduce"]["gb_per_s"]) == {"65536", "1048576", "4194304",
                                                              "16777216"}  # fmt: skip


def test_a_single_rank_has_no_collectives(clock: Clock, tmp_path: Path) -> None:
    framework: Any = Framework(clock)
    framework.job = SimpleNamespace(world_size=1)
    records: Any = Records()
    scaling.write_scaling(framework, lambda: None, records, tmp_path, "cpu")
    assert records.written == {}


def tensor(pid: int, *events: tuple[str, str, float]) -> list[dict[str, Any]]:
    return [{"ph": kind, "name": name, "ts": at, "pid": pid} for kind, name, at in events]


def test_the_timeline_of_horovod_counts_the_time_in_which_some_all_reduce_went_on(
    tmp_path: Path,
) -> None:
    nested = [
        ("B", "NEGOTIATE_ALLREDUCE", 0.0), ("E", "", 100.0),
        ("B", "ALLREDUCE", 100.0), ("B", "GLOO_ALLREDUCE", 120.0), ("E", "", 180.0),
        ("E", "", 200.0),
    ]  # fmt: skip
    beside = [("B", "ALLREDUCE", 150.0), ("E", "", 300.0)]
    later = [("B", "ALLREDUCE", 1000.0), ("E", "", 1100.0)]
    name = {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "gradient"}}
    events = [name, *tensor(1, *nested), *tensor(2, *beside), *tensor(1, *later)]
    path = tmp_path / "timeline.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    read = collectives.read_timeline(path)
    # From 100 to 300, and from 1000 to 1100 microseconds.
    assert collectives.seconds_in_all_reduce(read) == pytest.approx(300e-6)


def test_a_timeline_without_all_reduce_shows_nothing() -> None:
    assert collectives.seconds_in_all_reduce([]) is None
