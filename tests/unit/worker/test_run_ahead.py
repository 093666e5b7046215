"""The host runs ahead of a GPU: laps, progress and watch follow what the device did."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_dlperf.worker import host, run_ahead
from pytest_dlperf.worker.loop import RunProtocol, run_loop
from pytest_dlperf.worker.records import ProgressCounter, RecordWriter
from pytest_dlperf.worker.turns import Turns
from tests.helpers.simulated_gpu import (
    STEP_S,
    HostTimedFramework,
    SimulatedFramework,
    SimulatedGpu,
    finished,
    records,
    step_of,
)

WINDOW = RunProtocol(
    iterations=30,
    warmup=10,
    warmup_s=0.0,
    batch_size_per_device=4,
    uncounted_unit="",
    inject=0.0,
)


def trained(
    folder: Path, framework: SimulatedFramework, step: Any, window: RunProtocol = WINDOW
) -> dict[str, Any]:
    writer = RecordWriter(folder, 0)
    try:
        run_loop(framework, step, window, writer, ProgressCounter(folder, 0), Turns())  # type: ignore[arg-type]
    finally:
        writer.close()
    return records(folder)


def test_laps_are_the_devices(tmp_path: Path, gpu: SimulatedGpu):
    found = trained(tmp_path, SimulatedFramework(gpu), step_of(gpu))
    assert [s["seconds"] for s in found["span"]][11:] == pytest.approx([STEP_S] * 19, rel=1e-3)


def test_the_loop_adds_less_than_a_thousandth_of_a_step(tmp_path: Path, gpu: SimulatedGpu):
    """Of 5 ms: an event of the device's own is in each lap."""

    def step() -> Any:
        gpu.kernel(0.005, launch_s=1e-4)
        return SimpleNamespace(value=1.0)

    found = trained(tmp_path, SimulatedFramework(gpu), step)
    laps_s = [s["seconds"] for s in found["span"]][11:]
    assert 0.005 < max(laps_s) < 0.005 * 1.001


def test_events_and_the_hosts_clock_agree_over_the_window(tmp_path: Path, gpu: SimulatedGpu):
    found = trained(tmp_path, SimulatedFramework(gpu), step_of(gpu))
    laps_s = sum(s["seconds"] for s in found["span"][10:])
    assert found["window"][0]["seconds"] == pytest.approx(laps_s, rel=5e-3)


@pytest.mark.parametrize("warmup", [2, 3, 10])
def test_what_was_looked_at_is_not_the_trainings_memory(
    tmp_path: Path, gpu: SimulatedGpu, warmup: int
):
    """It is given back after the second step, unless the window would begin without it."""
    framework, done = SimulatedFramework(gpu), []
    inner = step_of(gpu)
    framework.canary = lambda: done.append("canary") or {}  # type: ignore[func-returns-value]
    framework.release_memory = lambda: done.append("released")  # type: ignore[method-assign]
    framework.reset_peak_memory = lambda: done.append("window")  # type: ignore[method-assign]

    def step() -> Any:
        done.append("step")
        return inner()

    trained(tmp_path, framework, step, WINDOW._replace(warmup=warmup))
    released = ["released"] if warmup > 2 else []
    before = ["step", "canary", "step", *released, *["step"] * (warmup - 2), "window"]
    assert done[: len(before)] == before
    assert done.count("released") == len(released)


def test_a_step_that_cannot_be_looked_at_is_done_again(tmp_path: Path, gpu: SimulatedGpu):
    framework, inner, seen = SimulatedFramework(gpu), step_of(gpu), []
    looks: list[int] = []

    @contextlib.contextmanager
    def watch() -> Iterator[None]:
        looks.append(1)
        with contextlib.suppress(MemoryError):
            yield
        looks.pop()

    framework.watch_arithmetic = watch

    def step() -> Any:
        seen.append(len(looks))
        if looks:
            raise MemoryError
        return inner()

    found = trained(tmp_path, framework, step)
    assert seen == [0, 1, *[0] * 29]
    assert len(found["span"]) == len(found["loss"][0]["values"]) == 30


def test_a_warm_up_in_seconds_goes_on_before_its_last_iteration(tmp_path: Path, gpu: SimulatedGpu):
    """Ten iterations take a tenth of a second: what is more leaves no span, and is no progress."""
    issued: list[tuple[float, int]] = []
    inner = step_of(gpu)

    def step() -> Any:
        begun = (tmp_path / "rank00000.progress").exists()
        issued.append((gpu.now_s, finished(tmp_path) if begun else 0))
        return inner()

    window = WINDOW._replace(warmup_s=3.0)
    found = trained(tmp_path, SimulatedFramework(gpu), step, window)
    assert len(found["span"]) == 30
    assert [s["seconds"] for s in found["span"]][11:] == pytest.approx([STEP_S] * 19, rel=1e-3)
    assert len(found["loss"][0]["values"]) == 30
    more = len(issued) - 30
    assert 290 <= more <= 320, "a quarter of a second at a time"
    last_s, done = issued[9 + more]
    assert done == 9
    assert 3.0 <= last_s - issued[1][0] <= 3.5
    # The GPU is watched from the tenth iteration on
    assert all(done <= 9 for _, done in issued[: 10 + more])


def test_ranks_warm_up_for_as_many_iterations(tmp_path: Path, gpu: SimulatedGpu):
    """Another rank's clock is half a second late: this one goes on with it."""
    framework = SimulatedFramework(gpu)
    framework.job.world_size = 2
    begun_s = gpu.now_s
    asked: list[float] = []

    def mean_over_ranks(value: float) -> float:
        asked.append(value)
        if value not in {0.0, 1.0}:  # seconds
            return value
        return (value + float(gpu.now_s - begun_s < 2.5)) / 2

    framework.mean_over_ranks = mean_over_ranks  # type: ignore[attr-defined]
    trained(tmp_path, framework, step_of(gpu), WINDOW._replace(warmup_s=2.0))
    assert asked.count(0.0) >= 2, "this rank was through, and went on"
    assert gpu.now_s - begun_s > 2.5


def test_progress_is_what_the_device_did(tmp_path: Path, gpu: SimulatedGpu):
    """A11: the host had queued all 30 iterations while the device did the 12th."""
    seen: list[tuple[int, int]] = []
    issued = 0
    inner = step_of(gpu)

    def step() -> Any:
        nonlocal issued
        issued += 1
        return inner()

    def look() -> None:
        if (tmp_path / "rank00000.progress").exists():
            seen.append((issued, finished(tmp_path)))

    gpu.on_pass = look
    trained(tmp_path, SimulatedFramework(gpu), step)
    # While the host waited for the window's last iterations, the device was in their midst.
    at_the_end = [done for count, done in seen if count == 30]
    assert min(at_the_end) < 15
    assert sorted(set(at_the_end)) == list(range(min(at_the_end), 31))
    assert all(done <= count for count, done in seen)
    assert finished(tmp_path) == 30


def test_a_hang_of_the_device_shows_the_iteration_that_it_was_in(
    tmp_path: Path, gpu: SimulatedGpu
):
    """The 20th iteration hangs there; the host queues on, and waits."""
    count = 0
    inner = step_of(gpu)

    def step() -> Any:
        nonlocal count
        count += 1
        if count == 20:
            gpu.kernel(1e9)
        return inner()

    class HungError(Exception):
        pass

    def wait_until(moment_s: float) -> None:
        if moment_s - gpu.now_s > 1e6:
            raise HungError
        gpu.now_s = max(gpu.now_s, moment_s)

    gpu.wait_until = wait_until  # type: ignore[method-assign]
    with pytest.raises(HungError):
        trained(tmp_path, SimulatedFramework(gpu), step)
    assert count == 30
    assert finished(tmp_path) == 19


def test_steps_that_run_ahead_are_counted(tmp_path: Path, gpu: SimulatedGpu):
    [window] = trained(tmp_path, SimulatedFramework(gpu), step_of(gpu))["window"]
    assert window["steps_ahead"] == 20
    assert window["host_losses"] is False


def many_launches(gpu: SimulatedGpu) -> Callable[[], Any]:
    """Return a step of 2000 launches, which waits while 1024 others are queued, as CUDA does."""
    ends_s: list[float] = []

    def step() -> Any:
        for _ in range(2000):
            if len(ends_s) >= 1024:
                # No wait that a framework would see
                gpu.now_s = max(gpu.now_s, ends_s[-1024])
            gpu.kernel(2e-5, launch_s=5e-6)
            ends_s.append(gpu.free_s)
        return SimpleNamespace(value=1.0)

    return step


def test_where_a_step_has_more_launches_than_are_queued_the_host_is_ahead_all_the_same(
    tmp_path: Path, gpu: SimulatedGpu
):
    """As in the suites on an H100."""
    (tmp_path / "a").mkdir()
    [window] = trained(tmp_path / "a", SimulatedFramework(gpu), many_launches(gpu))["window"]
    assert window["steps_ahead"] == 20
    (tmp_path / "b").mkdir()
    assert waits(tmp_path / "b", SimulatedFramework(gpu), many_launches(gpu)) is None


def test_a_wait_in_the_midst_of_a_step_is_seen_where_much_is_queued_after_it(
    tmp_path: Path, gpu: SimulatedGpu
):
    def step() -> Any:
        gpu.kernel(0.003)
        gpu.synchronize()
        gpu.host(0.004)
        gpu.kernel(0.007)
        return SimpleNamespace(value=1.0)

    found = waits(tmp_path, SimulatedFramework(gpu), step)
    assert found is not None
    assert found["within"] is True
    assert records(tmp_path)["window"][0]["steps_ahead"] == 20


def test_a_framework_that_cannot_say_whether_a_step_waits(tmp_path: Path, gpu: SimulatedGpu):
    framework = SimulatedFramework(gpu)
    framework.waits_within = lambda step: None  # type: ignore[method-assign]
    assert waits(tmp_path, framework, many_launches(gpu)) is None


def test_a_workload_that_does_no_more_steps_where_waits_are_looked_for(
    tmp_path: Path, gpu: SimulatedGpu
):
    framework, step = SimulatedFramework(gpu), many_launches(gpu)

    def waits_within(_step: object) -> bool:
        raise StopIteration("the data are over")

    framework.waits_within = waits_within  # type: ignore[method-assign]
    assert waits(tmp_path, framework, step) == {
        "rank": 0, "record": "waits", "problem": "StopIteration: the data are over"
    }  # fmt: skip


def test_a_wait_before_the_weights_are_updated_is_not_ahead(tmp_path: Path, gpu: SimulatedGpu):
    """As a loss scaler waits: a twentieth of the step is queued when the host ends it."""

    def step() -> Any:
        for seconds in (0.0095, 0.0005):
            gpu.kernel(seconds)
            if seconds == 0.0095:
                gpu.synchronize()
        return SimpleNamespace(value=1.0)

    [window] = trained(tmp_path, SimulatedFramework(gpu), step)["window"]
    assert window["steps_ahead"] == 0


def test_turns_begin_their_own_laps():
    # Two turns of two laps; between them the device is idle for 5 s
    begun = {0: 10.0, 2: 20.0}
    found = run_ahead.steps_ahead([1.0] * 4, begun, [10.1, 10.5, 20.5, 22.0])
    assert found == (3, 1)


def test_a_step_that_waits_for_its_loss_never_runs_ahead(tmp_path: Path, gpu: SimulatedGpu):
    def loss() -> float:
        gpu.synchronize()
        return 1.0

    [window] = trained(tmp_path, SimulatedFramework(gpu), step_of(gpu, loss))["window"]
    assert (window["steps_ahead"], window["host_losses"]) == (0, True)


def waits(folder: Path, framework: SimulatedFramework, step: Any) -> dict[str, Any] | None:
    """Return the record of what the host's waits cost."""
    writer = RecordWriter(folder, 0)
    try:
        trained = run_loop(framework, step, WINDOW, writer, ProgressCounter(folder, 0), Turns())  # type: ignore[arg-type]
        run_ahead.write_wait_cost(framework, step, writer, trained.laps_s, trained.ahead)  # type: ignore[arg-type]
    finally:
        writer.close()
    return records(folder).get("waits", [None])[0]


def test_what_a_wait_for_the_loss_costs(tmp_path: Path, gpu: SimulatedGpu):
    """A15: the GPU is idle until the first kernel comes, and between the five that follow.

    A kernel takes a tenth of a millisecond, as its launch does; the loss comes at the end.
    """

    def step() -> float:
        for _ in range(5):
            gpu.kernel(1e-4, launch_s=1e-4)
        gpu.synchronize()
        return 1.0

    found = waits(tmp_path, SimulatedFramework(gpu), step)
    assert found is not None
    assert found["step_seconds"] == pytest.approx(6e-4, rel=0.01)
    assert found["queued_seconds"] == pytest.approx(5e-4, rel=0.01)


def test_a_wait_in_the_midst_of_a_step_is_a_lower_bound(tmp_path: Path, gpu: SimulatedGpu):
    """As of a loss scaler: what follows the wait is launched late in either case."""

    def step() -> Any:
        for _ in range(2):
            for _ in range(5):
                gpu.kernel(1e-4, launch_s=1e-4)
            gpu.synchronize()
        return SimpleNamespace(value=1.0)

    found = waits(tmp_path, SimulatedFramework(gpu), step)
    assert found is not None
    assert found["step_seconds"] == pytest.approx(12e-4, rel=0.01)
    assert found["queued_seconds"] == pytest.approx(11e-4, rel=0.01)


def test_where_the_host_runs_ahead_nothing_is_measured_of_waits(tmp_path: Path, gpu: SimulatedGpu):
    assert waits(tmp_path, SimulatedFramework(gpu), step_of(gpu)) is None


def test_where_another_rank_waits_all_do_the_same_steps(tmp_path: Path, gpu: SimulatedGpu):
    framework = SimulatedFramework(gpu)
    framework.job.world_size = 2
    framework.mean_over_ranks = lambda value: (value + 1) / 2  # type: ignore[method-assign]
    found = waits(tmp_path, framework, step_of(gpu))
    assert found is not None
    assert found["queued_seconds"] == pytest.approx(STEP_S, rel=0.01)


def test_laps_that_wait_by_themselves_have_no_cost(tmp_path: Path, gpu: SimulatedGpu):
    assert waits(tmp_path, HostTimedFramework(gpu), step_of(gpu)) is None


def test_a_workload_that_can_do_no_more_steps_says_so(tmp_path: Path, gpu: SimulatedGpu):
    count = 0

    def step() -> float:
        nonlocal count
        count += 1
        if count > WINDOW.iterations:
            raise StopIteration("the data are over")
        gpu.kernel(1e-3)
        gpu.synchronize()
        return 1.0

    found = waits(tmp_path, SimulatedFramework(gpu), step)
    assert found is not None
    assert found["problem"] == "StopIteration: the data are over"


def test_ranks_begin_the_window_together(
    tmp_path: Path, gpu: SimulatedGpu, monkeypatch: pytest.MonkeyPatch
):
    """B6: to look at the host takes milliseconds, on each rank others."""
    framework = SimulatedFramework(gpu)
    done: list[str] = []
    sample = host.sample

    class Timer(type(framework.timer())):  # type: ignore[misc]
        def start(self) -> None:
            done.append("start")
            super().start()

    def slow_sample() -> host.HostSample:
        gpu.host(0.0015)
        done.append("sample")
        return sample()

    monkeypatch.setattr(host, "sample", slow_sample)
    framework.barrier = lambda: done.append("barrier")  # type: ignore[method-assign]
    framework.timer = lambda: Timer(framework._recorded, gpu.synchronize)  # type: ignore[method-assign]
    found = trained(tmp_path, framework, step_of(gpu))
    first = done.index("sample")
    assert done[first - 1 : first + 3] == ["barrier", "sample", "barrier", "start"]
    laps_s = sum(s["seconds"] for s in found["span"][10:])
    assert found["window"][0]["seconds"] == pytest.approx(laps_s, abs=0.005)


def test_without_events_each_lap_is_waited_for(tmp_path: Path, gpu: SimulatedGpu):
    found = trained(tmp_path, HostTimedFramework(gpu), step_of(gpu))
    assert [s["seconds"] for s in found["span"]][11:] == pytest.approx(
        [STEP_S + 1e-4] * 19, rel=1e-3
    )
    assert found["window"][0]["steps_ahead"] == 0
