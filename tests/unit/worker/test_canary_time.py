"""How long and how often the canary's work is repeated, on a made clock."""

from __future__ import annotations

import pytest

from pytest_dlperf.worker.frameworks import canary


class Work:
    """Takes the seconds that are given, the last of them again and again; so does each wait."""

    def __init__(self, *seconds: float, wait_s: float = 0.0) -> None:
        self.now_s, self.calls, self.waited_for = 0.0, 0, list[int]()
        self._seconds, self._wait_s = seconds, wait_s

    def __call__(self) -> int:
        self.now_s += self._seconds[min(self.calls, len(self._seconds) - 1)]
        self.calls += 1
        return self.calls

    def wait(self, last: int) -> None:
        self.now_s += self._wait_s
        self.waited_for.append(last)


@pytest.fixture
def on_clock(monkeypatch: pytest.MonkeyPatch):
    def set_clock(work: Work) -> Work:
        monkeypatch.setattr(canary.time, "perf_counter", lambda: work.now_s)
        return work

    return set_clock


def test_short_work_is_repeated_for_its_time_and_the_first_does_not_count(on_clock) -> None:
    work = on_clock(Work(9.0, 0.001))
    found_s = canary.median_s(work, work.wait, seconds=0.0499, launches=1)
    assert found_s == pytest.approx(0.001)
    assert work.calls == 1 + 50


def test_long_work_is_repeated_five_times(on_clock) -> None:
    work = on_clock(Work(9.0, 1.0, 1.0, 5.0, 1.0, 7.0))
    assert canary.median_s(work, work.wait, seconds=0.05, launches=1) == 1.0
    assert work.calls == 1 + 5


def test_a_device_is_waited_for_once_after_many_launches(on_clock) -> None:
    """The wait, as long as a launch here, is a twentieth of what is measured, not half."""
    work = on_clock(Work(1e-4, wait_s=1e-4))
    found_s = canary.median_s(work, work.wait, seconds=0.0104, launches=20)
    assert found_s == pytest.approx(1.05e-4)
    assert work.waited_for == [20, 40, 60, 80, 100, 120]


@pytest.mark.parametrize("launches", [1, 20])
def test_a_collective_is_repeated_as_often_on_every_rank(on_clock, launches: int) -> None:
    for seconds in (1e-4, 3.0):
        work = on_clock(Work(seconds))
        found_s = canary.median_of_s(work, work.wait, repetitions=7, launches=launches)
        assert found_s == pytest.approx(seconds)
        assert work.calls == (1 + 7) * launches


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("ranks", [1, 2])
def test_rates_are_of_one_launch(on_clock, ranks: int, on_gpu: bool) -> None:
    work = on_clock(Work(0.002))
    launches = canary.Launches(
        matmul=work, copy=work, all_reduce=work if ranks > 1 else None, wait=work.wait
    )
    size = canary.Work(
        side=100, copied=1000, reduced=500, matmul_s=0.1, copy_s=0.1, all_reduces=5, launches=3
    )
    found = canary.measure(launches, size, on_gpu=on_gpu)
    assert {name.removeprefix("sustained_"): rate for name, rate in found.items()} == {
        "matmul_gflop_per_s": pytest.approx(1.0),
        "copy_gb_per_s": pytest.approx(0.004),
        "all_reduce_gb_per_s": pytest.approx(0.001) if ranks > 1 else None,
    }
    assert all(name.startswith("sustained_") is on_gpu for name in found)


def test_a_canary_of_a_gpu_heats_it_and_one_of_a_cpu_is_short() -> None:
    gpu, cpu = (canary.work_of(on_gpu=on_gpu) for on_gpu in (True, False))
    assert gpu.matmul_s >= 1.0
    assert gpu.launches > 1
    assert cpu.launches == 1
    assert cpu.matmul_s + cpu.copy_s < 0.1
    assert cpu.all_reduces >= 5
