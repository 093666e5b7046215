"""What a rank says of a TensorFlow, a Horovod or a launcher that will not do."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import tensorflow as tf

from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks import tensorflow_ranks
from pytest_dlperf.worker.frameworks.tensorflow_ import Tensorflow

pytestmark = pytest.mark.tensorflow


def arguments(**fields) -> SimpleNamespace:
    values = {
        "rank": 0, "local_rank": 0, "world_size": 2, "device": "cpu", "precision": "fp32",
        "place": "env", "collective_timeout_s": 10.0, "threads_per_rank": 1, "options": {},
    }  # fmt: skip
    return SimpleNamespace(**values | fields)


def test_a_horovod_without_tensorflow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    with pytest.raises(WorkerFailure, match="HOROVOD_WITH_TENSORFLOW=1") as caught:
        tensorflow_ranks.join(arguments(place="horovod"))
    assert caught.value.code == "horovod-unusable"


def test_ranks_of_another_launcher(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    with pytest.raises(WorkerFailure, match="cannot find each other"):
        tensorflow_ranks.join(arguments())


def test_one_rank_joins_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    alone = tensorflow_ranks.join(arguments(world_size=1))
    assert alone.backend is None
    assert alone.average([1.0, None]) == [1.0, None]


def test_a_gpu_that_tensorflow_does_not_see(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _kind: ["one"])
    with pytest.raises(WorkerFailure, match=r"local rank 3 has no GPU: .* sees 1"):
        Tensorflow(arguments(device="gpu", local_rank=3))


def test_keras_3(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tf.keras, "__version__", "3.1.0", raising=False)
    with pytest.raises(WorkerFailure, match=r"brings Keras 3\.1\.0.*pip install tf_keras"):
        Tensorflow(arguments())
