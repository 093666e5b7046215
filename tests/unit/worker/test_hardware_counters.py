"""Instructions and cycles of a rank; read here with an event that every machine counts."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pytest_dlperf.worker import hardware_counters, host
from pytest_dlperf.worker.hardware_counters import Count, Event, counted

#: PERF_TYPE_SOFTWARE with PERF_COUNT_SW_TASK_CLOCK: nanoseconds of CPU time, in any machine.
TASK_CLOCK = {"instructions": Event(1, 1)}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    hardware_counters.close_counters()


@pytest.fixture
def open_task_clock() -> None:
    hardware_counters.open_counters(TASK_CLOCK)
    if not hardware_counters.read():
        pytest.skip("the kernel lets this process count nothing (perf_event_open)")


def spin(cpu_s: float) -> None:
    end_s = time.thread_time() + cpu_s
    while time.thread_time() < end_s:
        pass


SPIN = "import time\nwhile time.process_time() < 0.2: pass"


def spin_in_a_thread() -> None:
    thread = threading.Thread(target=spin, args=(0.2,))
    thread.start()
    thread.join()


def spin_in_a_process() -> None:
    subprocess.run([sys.executable, "-S", "-c", SPIN], check=True)


@pytest.mark.parametrize("work", [spin_in_a_thread, spin_in_a_process])
def test_what_began_later_is_counted(open_task_clock: None, work: Callable[[], None]) -> None:
    before = hardware_counters.read()
    work()
    assert counted(before, hardware_counters.read())["instructions"] > 0.19e9


def test_the_window_has_what_was_counted_in_it(open_task_clock: None) -> None:
    spin(0.3)
    parts = []
    for _ in range(2):
        before = host.sample()
        spin(0.1)
        parts.append(host.window(before, host.sample(), inject=0.0))
        spin(0.3)
    found = host.together(parts)["counted"]["instructions"]
    # Not what is between the parts: a rank's wait
    assert found == sum(part["counted"]["instructions"] for part in parts)
    assert 0.19e9 < found < 0.5e9


def test_an_event_that_the_machine_lacks_is_not_counted() -> None:
    hardware_counters.open_counters({"instructions": Event(0, 2**32 - 1)})
    assert hardware_counters.read() == {}
    before = host.sample()
    assert host.window(before, host.sample(), inject=0.0)["counted"] == {}


def test_a_counter_that_took_turns_is_extrapolated() -> None:
    before = {"cycles": Count(100, 10, 10), "instructions": Count(5, 10, 10)}
    after = {"cycles": Count(400, 50, 20), "instructions": Count(5, 50, 10)}
    assert counted(before, after) == {"cycles": 300 * 40 / 10}
