"""What a rank says of a TensorFlow, a Horovod or a launcher that will not do."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest
import tensorflow as tf

from pytest_dlperf.worker.failure import WorkerFailure
from pytest_dlperf.worker.frameworks.tensorflow import ranks
from pytest_dlperf.worker.frameworks.tensorflow.framework import Tensorflow

pytestmark = pytest.mark.tensorflow


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No place in any job; and what joining adds to the environment does not stay."""
    for name in [name for name in os.environ if name.startswith(("HOROVOD", "TF_CONFIG"))]:
        monkeypatch.delenv(name)
    for name in ("HOROVOD_STALL_CHECK_TIME_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"):
        monkeypatch.setenv(name, "60")


def arguments(**fields) -> SimpleNamespace:
    values = {
        "rank": 0, "local_rank": 0, "world_size": 2, "device": "cpu", "precision": "fp32",
        "collective_timeout_s": 10.0, "threads_per_rank": 1, "options": {},
    }  # fmt: skip
    return SimpleNamespace(**values | fields)


def test_a_horovod_without_tensorflow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    with pytest.raises(WorkerFailure, match="HOROVOD_WITH_TENSORFLOW=1") as caught:
        ranks.join(arguments())
    assert caught.value.code == "horovod-unusable"


def test_ranks_of_another_launcher():
    """Such a rank is alone in Horovod: it does not know of the others."""
    with pytest.raises(WorkerFailure, match="1 ranks of tensorflow found each other, the case"):
        ranks.join(arguments())


def hvd_of(nccl: int) -> SimpleNamespace:
    built = dict.fromkeys(["mpi_built", "cuda_built", "rocm_built"], lambda: False)
    always = dict.fromkeys(["gloo_built", "gloo_enabled"], lambda: True)
    return SimpleNamespace(
        init=lambda: None, size=lambda: 2, nccl_built=lambda: nccl, **built, **always
    )


@pytest.mark.parametrize(
    ("nccl", "backend", "version", "operations"),
    [(0, "horovod-gloo", None, "gloo"), (21805, "horovod-nccl", "2.18.5", "nccl, gloo")],
)
def test_a_rank_reports_what_its_horovod_was_built_with(
    nccl: int, backend: str, version: str | None, operations: str, monkeypatch: pytest.MonkeyPatch
):
    horovod = SimpleNamespace(__version__="0.28.1", tensorflow=hvd_of(nccl))
    monkeypatch.setitem(sys.modules, "horovod", horovod)
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", horovod.tensorflow)
    joined = ranks.join(arguments(device="gpu"))
    assert joined.backend == backend
    assert joined.facts() == {"nccl": version, "horovod": f"0.28.1 with {operations}"}


def test_one_rank_joins_nobody(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", None)
    alone = ranks.join(arguments(world_size=1))
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
