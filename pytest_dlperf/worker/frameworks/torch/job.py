"""A rank of a PyTorch training, as its workload sees it."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from pytest_dlperf.worker.feed import Dataset
from pytest_dlperf.worker.job import AutogradJob, Job


def loader(job: Job, dataset: Dataset) -> DataLoader:
    """Return this rank's batches of ``dataset``, shuffled again in each epoch."""
    guarded = job.feed.guard(dataset, job.replicas, job.batch_size_per_device)
    sampler = DistributedSampler(
        guarded, num_replicas=job.replicas, rank=job.replica, seed=job.seed, drop_last=True
    )
    first = list(itertools.islice(sampler, job.batch_size_per_device))
    job.feed.note(samples=len(guarded), first_samples=first)
    return DataLoader(
        guarded,
        batch_size=job.batch_size_per_device,
        sampler=sampler,
        num_workers=job.data_workers,
        drop_last=True,
        pin_memory=job.device.type == "cuda",
        persistent_workers=job.data_workers > 0,
    )


_AUTOCAST = {"amp": torch.float16, "bf16": torch.bfloat16, "fp8": torch.bfloat16}


@dataclass(kw_only=True)
class TorchJob(AutogradJob):
    """A rank of a PyTorch training."""

    modules: list[torch.nn.Module] = field(default_factory=list)
    #: Those of ``modules`` whose gradients are averaged over ranks, in their wrappers.
    wrapped: list[torch.nn.Module] = field(default_factory=list)
    declared: list[torch.Tensor] | None = None
    #: Tensors that are shards by hand, each with the number of its part.
    shards: list[tuple[int, torch.Tensor]] = field(default_factory=list)

    def generator(self) -> torch.Generator:
        """Return a generator on the device; ranks draw different numbers."""
        return torch.Generator(device=self.device).manual_seed(self.seed * 100_003 + self.replica)

    def data_parallel(self, module: torch.nn.Module, **options: Any) -> torch.nn.Module:
        """Return ``module`` moved, and under DistributedDataParallel if there are ranks."""
        module = module.to(device=self.device, dtype=self.dtype)
        self.modules.append(module)
        self.replicated(module.parameters())
        if self.world_size == 1:
            return module
        if self.parallel.split > 1:
            # Ranks that share a batch hold other parts of the model
            options = {"process_group": self.mesh["dp"].get_group(), **options}
        device_ids = [self.device.index] if self.device.type == "cuda" else None
        wrapped = DistributedDataParallel(module, device_ids=device_ids, **options)
        self.wrapped.append(wrapped)
        return wrapped

    @functools.cached_property
    def mesh(self) -> Any:
        """The ranks as a ``DeviceMesh``: ``dp``, then those of ``pp``, ``cp``, ``tp`` in use.

        Made at the first use, by all ranks.
        """
        from torch.distributed.device_mesh import init_device_mesh

        names, lengths = zip(*self.parallel.dims(self.world_size), strict=True)
        return init_device_mesh(self.device.type, lengths, mesh_dim_names=names)

    def replicated(self, parameters: Iterable[torch.Tensor]) -> None:
        """Declare parameters that must be equal on all ranks at the end."""
        self.declared = [*(self.declared or []), *parameters]

    def sharded(self, parameters: Iterable[torch.Tensor], part: int | None = None) -> None:
        """Declare plain tensors of which this rank holds one part: DTensors say so themselves.

        Ranks that hold the same part must be equal at the end, other parts are not compared, and
        each counts once in the number of parameters. ``part`` is its number; by default the
        rank's among those that split a replica. Experts that each rank has its own of have
        ``part=job.rank``.
        """
        number = self.rank % self.parallel.split if part is None else part
        self.shards += [(number, parameter) for parameter in parameters]

    def loader(self, dataset: Dataset) -> Iterable[Any]:
        """Return a ``DataLoader`` over ``dataset`` with a ``DistributedSampler``; see ``batches``.

        A sample is a tuple of NumPy arrays or tensors; batches are tensors on the host.
        """
        made: Iterable[Any] = loader(self, dataset)
        return made

    def autocast(self) -> AbstractContextManager[Any]:
        """Return ``torch.autocast`` in float16 for amp, bfloat16 for bf16 and fp8."""
        if self.precision not in _AUTOCAST:
            return contextlib.nullcontext()
        context: AbstractContextManager[Any] = torch.autocast(
            self.device.type, dtype=_AUTOCAST[self.precision]
        )
        return context

    def _on_device(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.device)

    def _clear(self, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad(set_to_none=True)

    def _clip(self, parameters: Iterable[torch.Tensor], norm: float) -> None:
        torch.nn.utils.clip_grad_norm_(parameters, norm)
