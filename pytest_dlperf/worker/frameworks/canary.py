"""The canary: fixed work that shows whether the machine changed, apart from any workload.

A matrix product, a memory copy and, where there are ranks, an all-reduce; all ranks at once, as in
training. The median of the repetitions is taken.

A user's own program on CPUs has one of the host instead, which needs no framework and none of the
program's threads: a program that takes fewer of them must not look like a slower machine.

On a GPU the product is of random numbers in the type that the case computes in, for a second: a
lowered power limit slows it then as it slows training. A product of ones draws less power.
"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pytest_dlperf.core.wire_records import CanaryRates

_FEWEST: Final = 5


class Work(NamedTuple):
    """How much a canary does on a device of one kind."""

    #: Of the square matrices of the product.
    side: int
    #: Numbers that are copied, in float32.
    copied: int
    #: Numbers of an all-reduce, in float32.
    reduced: int
    matmul_s: float
    copy_s: float
    #: Repetitions of the all-reduce: ranks must agree on how often.
    all_reduces: int
    #: Launches of a repetition. The device is waited for once, after the last: to wait for each
    #: would add 15 to 30 us of the host to a launch of 60 to 200 us.
    launches: int


GPU: Final = Work(
    side=4096,
    copied=2**26,
    reduced=2**20,
    matmul_s=1.0,
    copy_s=0.12,
    all_reduces=10,
    launches=20,
)
#: Shorter: a product takes a millisecond. What a copy and an all-reduce tell on a CPU is known
#: to 75 % at best (``judge/canary.py``), however often they are repeated.
CPU: Final = Work(
    side=384,
    copied=2**22,
    reduced=2**20,
    matmul_s=0.05,
    copy_s=0.02,
    all_reduces=7,
    launches=1,
)
#: What a case of a precision computes in; float32, or TF32, where none is given.
HALF: Final[Mapping[str, str]] = {
    "amp": "float16",
    "pure_fp16": "float16",
    "bf16": "bfloat16",
    # What is not converted to float8 is in bfloat16
    "fp8": "bfloat16",
}

#: Bytes of a message that is hashed, and how long that is repeated. They are few, since the peak
#: of a program's resident set is judged too.
_HASHED: Final = 2**18
_HASHED_S: Final = 0.05


class Launches(NamedTuple):
    """Starts each part on a framework's device."""

    matmul: Callable[[], Any]
    copy: Callable[[], Any]
    #: None on one rank: alone in a group it sends nothing, and its rate varied by 25 % on an H100.
    all_reduce: Callable[[], Any] | None
    #: Gets what the last launch returned, and returns when the device is done.
    wait: Callable[[Any], object]


def work_of(*, on_gpu: bool) -> Work:
    """Return how much the canary does on a device of this kind."""
    return GPU if on_gpu else CPU


def measure(launches: Launches, work: Work, *, on_gpu: bool) -> CanaryRates:
    """Return the rates of this rank: bytes of the tensor over seconds, for an all-reduce.

    A GPU's have names of their own: baselines that were stored before hold rates of single
    launches on ones, which must not be compared with these.
    """
    wait, count = launches.wait, work.launches
    matmul_s = median_s(launches.matmul, wait, seconds=work.matmul_s, launches=count)
    copy_s = median_s(launches.copy, wait, seconds=work.copy_s, launches=count)
    reduced = None
    if launches.all_reduce is not None:
        all_reduce_s = median_of_s(
            launches.all_reduce, wait, repetitions=work.all_reduces, launches=count
        )
        reduced = 4 * work.reduced / all_reduce_s / 1e9
    gflop_per_s = 2 * work.side**3 / matmul_s / 1e9
    copied = 2 * 4 * work.copied / copy_s / 1e9
    if on_gpu:
        return {
            "sustained_matmul_gflop_per_s": gflop_per_s,
            "sustained_copy_gb_per_s": copied,
            "sustained_all_reduce_gb_per_s": reduced,
        }
    return {
        "matmul_gflop_per_s": gflop_per_s,
        "copy_gb_per_s": copied,
        "all_reduce_gb_per_s": reduced,
    }


def host_rates() -> CanaryRates:
    """Return the rate at which one core computes SHA-256.

    It follows the clock of that core, and nothing of memory, links, or the number of cores.
    """
    message = bytes(_HASHED)
    hash_s = median_s(
        lambda: hashlib.sha256(message).digest(), lambda _: None, seconds=_HASHED_S, launches=1
    )
    return {"hash_gb_per_s": _HASHED / hash_s / 1e9}


def median_s(
    launch: Callable[[], Any], wait: Callable[[Any], object], *, seconds: float, launches: int
) -> float:
    """Return the median seconds of a launch.

    One repetition warms up; others follow for ``seconds``, and 5 times at least. ``wait`` gets
    what the last launch returned, and returns when the device is done.
    """
    repeat = _repetition(launch, wait, launches)
    repeat()
    times_s: list[float] = []
    end_s = time.perf_counter() + seconds
    while len(times_s) < _FEWEST or time.perf_counter() < end_s:
        times_s.append(_once_s(repeat))
    return statistics.median(times_s) / launches


def median_of_s(
    launch: Callable[[], Any], wait: Callable[[Any], object], *, repetitions: int, launches: int
) -> float:
    """Return the same of so many repetitions, after one to warm up."""
    repeat = _repetition(launch, wait, launches)
    repeat()
    return statistics.median(_once_s(repeat) for _ in range(repetitions)) / launches


def _repetition(
    launch: Callable[[], Any], wait: Callable[[Any], object], launches: int
) -> Callable[[], None]:
    def repeat() -> None:
        result = None
        for _ in range(launches):
            result = launch()
        wait(result)

    return repeat


def _once_s(repeat: Callable[[], None]) -> float:
    begin_s = time.perf_counter()
    repeat()
    return time.perf_counter() - begin_s
