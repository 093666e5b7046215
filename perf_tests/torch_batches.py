"""Data of the suites in PyTorch, on the device that trains, and what a tuned case asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_dlperf.worker.feed import Dataset
    from pytest_dlperf.worker.frameworks.torch.job import TorchJob

#: What autocast computes in.
HALF = {"amp": torch.float16, "bf16": torch.bfloat16}


def is_tuned(job: TorchJob) -> bool:
    """Return whether the case has the option ``tuned``: trained as one would now, not as then.

    Then the optimizer is one kernel, gradients are in the buckets that are reduced, images are
    channels last and, where they are synthetic, in the type that is computed in.
    """
    return bool(job.options.get("tuned"))


def optimizer_options(job: TorchJob) -> dict[str, Any]:
    """Return what a tuned case gives to its optimizer: one kernel needs no wait for the GPU.

    Otherwise nothing, and not ``fused=False``, which is slower than PyTorch's own choice.
    """
    return {"fused": True} if is_tuned(job) else {}


def replica_options(job: TorchJob) -> dict[str, Any]:
    """Return what a tuned case gives to ``job.data_parallel``."""
    # Not static_graph=True, though the graphs are static and no_sync samples the same with it: it
    # spares the search for unused parameters, which is off here as it is, it lets the first step
    # reduce after its backward pass only; PyTorch's issue 93672 warns of it under torch.compile.
    return {"gradient_as_bucket_view": True} if is_tuned(job) else {}


def synthetic_dtype(job: TorchJob) -> torch.dtype:
    """Return the type of synthetic inputs; of a tuned case no step casts them again."""
    return HALF.get(job.precision, job.dtype) if is_tuned(job) else job.dtype


def memory_format(job: TorchJob) -> torch.memory_format:
    """Return the layout of images and of the weights of convolutions."""
    return torch.channels_last if is_tuned(job) else torch.contiguous_format


def batches_of(
    job: TorchJob, dataset: Dataset, **layout: Any
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Return this rank's batches of inputs and labels without end; inputs have the job's dtype.

    ``layout`` goes to the inputs' ``Tensor.to``: ``memory_format``, where it is another.
    """
    return (
        (
            inputs.to(job.device, job.dtype, non_blocking=True, **layout),
            labels.to(job.device, non_blocking=True),
        )
        for inputs, labels in job.batches(job.loader(dataset))
    )
