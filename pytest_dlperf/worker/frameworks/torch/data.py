"""PyTorch's own loader of data, as each rank uses it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from torch.utils.data import DataLoader, DistributedSampler

if TYPE_CHECKING:
    from pytest_dlperf.worker.feed import Dataset
    from pytest_dlperf.worker.job import Job


def loader(job: Job, dataset: Dataset) -> DataLoader:
    """Return this rank's batches of ``dataset``, shuffled anew in each epoch."""
    guarded = job.feed.guard(dataset, job.world_size, job.batch_size_per_device)
    sampler = DistributedSampler(
        guarded, num_replicas=job.world_size, rank=job.rank, seed=job.seed, drop_last=True
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
