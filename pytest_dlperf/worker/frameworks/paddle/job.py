"""What a Paddle workload is given."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle
from paddle.io import DataLoader, DistributedBatchSampler

from pytest_dlperf.worker.feed import Dataset
from pytest_dlperf.worker.job import AutogradJob, Job


def loader(job: Job, dataset: Dataset) -> DataLoader:
    """Return this rank's batches of ``dataset``, shuffled again in each epoch."""
    guarded = job.feed.guard(dataset, job.replicas, job.batch_size_per_device)
    sampler = DistributedBatchSampler(
        guarded,
        job.batch_size_per_device,
        num_replicas=job.replicas,
        rank=job.replica,
        shuffle=True,
        drop_last=True,
    )
    # It counts an epoch; job.batches sets it back.
    first = [int(index) for index in next(iter(sampler))]
    job.feed.note(samples=len(guarded), first_samples=first)
    return DataLoader(
        guarded,
        batch_sampler=sampler,
        num_workers=job.data_workers,
        persistent_workers=job.data_workers > 0,
    )


_AUTOCAST = {
    "amp": {"dtype": "float16", "level": "O1"},
    "bf16": {"dtype": "bfloat16", "level": "O1"},
    "pure_fp16": {"dtype": "float16", "level": "O2"},
}


class LossScaler(paddle.amp.GradScaler):  # type: ignore[misc]  # paddle is Any here
    """Paddle's scaler, which also answers to the name that the worker's checks know."""

    _scale: Any

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if self._scale is not None:
            # At the first overflow Paddle (3.3.1 too) makes a Python number of its scale, which is
            # an array of one element; NumPy 2.4 refuses that, but for arrays without dimensions.
            self._scale = self._scale.reshape([])

    def is_enabled(self) -> bool:
        """Return whether losses are scaled; on a CPU Paddle disables its scaler silently."""
        return bool(self.is_enable())


@dataclass(kw_only=True)
class PaddleJob(AutogradJob):
    """A rank of a Paddle training; ``device`` is Paddle's name of it, ``cpu`` or ``gpu:0``."""

    layers: list[paddle.nn.Layer] = field(default_factory=list)
    #: Those of ``layers`` whose gradients are averaged over ranks, in their wrappers.
    wrapped: list[paddle.nn.Layer] = field(default_factory=list)
    declared: list[paddle.Tensor] | None = None

    def generator(self) -> np.random.Generator:
        """Return NumPy's generator, since Paddle's functions take none; differs by rank."""
        return np.random.default_rng(self.seed * 100_003 + self.replica)

    def data_parallel(self, module: paddle.nn.Layer, **options: Any) -> paddle.nn.Layer:
        """Return ``module``, and under ``paddle.DataParallel`` if there are ranks.

        For ``pure_fp16`` its parameters become float16, those of normalisation excepted.
        """
        if self.precision == "pure_fp16":
            module = paddle.amp.decorate(module, level="O2", dtype="float16")
        self.layers.append(module)
        self.replicated(module.parameters())
        if self.world_size == 1:
            return module
        self.check_averaged_by_all()
        wrapped = paddle.DataParallel(module, **options)
        self.wrapped.append(wrapped)
        return wrapped

    def replicated(self, parameters: Iterable[paddle.Tensor]) -> None:
        """Declare parameters that must be equal on all ranks at the end.

        Those that are not trained are left out: Paddle lists the running statistics of batch
        normalisation among the parameters, and they differ by rank.
        """
        trained = [parameter for parameter in parameters if not parameter.stop_gradient]
        self.declared = [*(self.declared or []), *trained]

    def loader(self, dataset: Dataset) -> Iterable[Any]:
        """Return a ``DataLoader`` with a ``DistributedBatchSampler``; see ``batches``.

        A sample is a tuple of NumPy arrays; batches are tensors on this rank's device.
        """
        made: Iterable[Any] = loader(self, dataset)
        return made

    def autocast(self) -> AbstractContextManager[Any]:
        """Return ``paddle.amp.auto_cast`` as the precision needs it; nothing for fp32."""
        if self.precision not in _AUTOCAST:
            return contextlib.nullcontext()
        context: AbstractContextManager[Any] = paddle.amp.auto_cast(**_AUTOCAST[self.precision])
        return context

    def _on_device(self, tensor: paddle.Tensor) -> paddle.Tensor:
        return tensor  # Paddle makes tensors on the rank's own device

    def _clear(self, optimizer: paddle.optimizer.Optimizer) -> None:
        optimizer.clear_grad()

    def _clip(self, parameters: Iterable[paddle.Tensor], norm: float) -> None:
        paddle.nn.utils.clip_grad_norm_(parameters, norm)
