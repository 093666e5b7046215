"""Paddle's own loader of data, as each rank uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle.io import DataLoader, DistributedBatchSampler

if TYPE_CHECKING:
    from pytest_dlperf.worker.feed import Dataset
    from pytest_dlperf.worker.job import Job


def loader(job: Job, dataset: Dataset) -> DataLoader:
    """Return this rank's batches of ``dataset``, shuffled anew in each epoch."""
    guarded = job.feed.guard(dataset, job.world_size, job.batch_size_per_device)
    sampler = DistributedBatchSampler(
        guarded,
        job.batch_size_per_device,
        num_replicas=job.world_size,
        rank=job.rank,
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
