"""TensorFlow's own strategy instead of Horovod, with the newest TensorFlow too."""

from __future__ import annotations

import pytest


@pytest.mark.dlperf(
    command=["python", "train.py", "{iterations}"],
    framework="tensorflow",
    launcher="tf-multiworker",
    layout=["1n1c", "1n2c"],
    batch_size_per_device=8,
)
def test_multi_worker(dlperf):
    dlperf.run()
