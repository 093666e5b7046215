"""The canary of ``torch_canary`` for TensorFlow: fixed work that tells of a changed machine."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_dlperf.worker.frameworks.tensorflow_ranks import Ranks

_SECONDS = 0.12
_ALL_REDUCES = 20


def measure(ranks: Ranks, *, on_gpu: bool) -> dict[str, float | None]:
    """Return ``matmul_gflop_per_s``, ``copy_gb_per_s``, ``all_reduce_gb_per_s`` of this rank.

    float32 throughout; the last is None on one rank: bytes of the tensor over seconds. A
    negation stands for the copy, since TensorFlow's own copies share their buffers.
    """
    side = 4096 if on_gpu else 384
    copied = 2**26 if on_gpu else 2**22
    left, right = tf.ones((side, side)), tf.ones((side, side))
    matmul_s = _median_s(lambda: tf.matmul(left, right))
    source = tf.ones(copied)
    copy_s = _median_s(lambda: tf.negative(source))
    all_reduce_s = None
    if ranks.backend is not None:
        message = tf.zeros(2**20)
        all_reduce = tf.function(lambda tensor: ranks.average([tensor])[0])
        all_reduce_s = _median_s(lambda: all_reduce(message), _ALL_REDUCES)
    return {
        "matmul_gflop_per_s": 2 * side**3 / matmul_s / 1e9,
        "copy_gb_per_s": 2 * 4 * copied / copy_s / 1e9,
        "all_reduce_gb_per_s": None if all_reduce_s is None else 4 * 2**20 / all_reduce_s / 1e9,
    }


def all_reduce_of(ranks: Ranks, size_bytes: int) -> Callable[[], None]:
    """Return a function that reduces a float32 message over the ranks, and waits for it."""
    message = tf.zeros(size_bytes // 4)
    all_reduce = tf.function(lambda tensor: ranks.average([tensor])[0])
    return lambda: _wait(all_reduce(message))


def _median_s(work: Callable[[], Any], repetitions: int | None = None) -> float:
    """Return the median seconds of ``work``; ranks of a collective must agree on how often."""
    _wait(work())
    times_s: list[float] = []
    end_s = time.perf_counter() + _SECONDS
    while len(times_s) < (repetitions or 5) or (
        repetitions is None and time.perf_counter() < end_s
    ):
        begin_s = time.perf_counter()
        _wait(work())
        times_s.append(time.perf_counter() - begin_s)
    return statistics.median(times_s)


def _wait(result: Any) -> None:
    # One number of it: to fetch all would be measured too.
    tf.reshape(result, [-1])[0].numpy()
