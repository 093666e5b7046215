"""The canary of ``torch_canary`` for TensorFlow: fixed work that tells of a changed machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from pytest_dlperf.worker.frameworks.canary_time import canary_time, median_of_s, median_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_dlperf.worker.frameworks.tensorflow.ranks import Ranks


def measure(ranks: Ranks, *, on_gpu: bool) -> dict[str, float | None]:
    """Return ``matmul_gflop_per_s``, ``copy_gb_per_s``, ``all_reduce_gb_per_s`` of this rank.

    float32 throughout; the last is None on one rank: bytes of the tensor over seconds. A
    negation stands for the copy, since TensorFlow's own copies share their buffers.
    """
    side = 4096 if on_gpu else 384
    copied = 2**26 if on_gpu else 2**22
    takes = canary_time(on_gpu=on_gpu)
    left, right = tf.ones((side, side)), tf.ones((side, side))
    matmul_s = median_s(lambda: _wait(tf.matmul(left, right)), seconds=takes.matmul_s)
    source = tf.ones(copied)
    copy_s = median_s(lambda: _wait(tf.negative(source)), seconds=takes.copy_s)
    all_reduce_s = None
    if ranks.backend is not None:
        message = tf.zeros(2**20)
        all_reduce = tf.function(lambda tensor: ranks.average([tensor])[0])
        all_reduce_s = median_of_s(
            lambda: _wait(all_reduce(message)), repetitions=takes.all_reduces
        )
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


def _wait(result: Any) -> None:
    # One number of it: to fetch all would be measured too.
    tf.reshape(result, [-1])[0].numpy()
