"""How long the canary's work is repeated, on a made clock."""

from __future__ import annotations

import pytest

from pytest_dlperf.worker.frameworks import on_cpu


class Work:
    """Takes the seconds that are given, the last of them again and again."""

    def __init__(self, *seconds: float) -> None:
        self.now_s, self.calls, self._seconds = 0.0, 0, seconds

    def __call__(self) -> None:
        self.now_s += self._seconds[min(self.calls, len(self._seconds) - 1)]
        self.calls += 1


@pytest.fixture
def on_clock(monkeypatch: pytest.MonkeyPatch):
    def set_clock(work: Work) -> Work:
        monkeypatch.setattr(on_cpu.time, "perf_counter", lambda: work.now_s)
        return work

    return set_clock


def test_short_work_is_repeated_for_its_time_and_the_first_does_not_count(on_clock) -> None:
    work = on_clock(Work(9.0, 0.001))
    assert on_cpu.median_s(work, seconds=0.0499) == pytest.approx(0.001)
    assert work.calls == 1 + 50


def test_long_work_is_repeated_five_times(on_clock) -> None:
    work = on_clock(Work(9.0, 1.0, 1.0, 5.0, 1.0, 7.0))
    assert on_cpu.median_s(work, seconds=0.05) == 1.0
    assert work.calls == 1 + 5


def test_a_collective_is_repeated_as_often_on_every_rank(on_clock) -> None:
    for seconds in (1e-4, 3.0):
        work = on_clock(Work(seconds))
        assert on_cpu.median_of_s(work, repetitions=7) == pytest.approx(seconds)
        assert work.calls == 1 + 7


def test_a_canary_of_a_gpu_takes_as_long_as_ever_and_one_of_a_cpu_less() -> None:
    gpu, cpu = (on_cpu.canary_time(on_gpu=on_gpu) for on_gpu in (True, False))
    assert gpu == (0.12, 0.12, 20)
    assert cpu.matmul_s + cpu.copy_s < 0.1
    assert cpu.all_reduces >= 5
