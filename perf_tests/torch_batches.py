"""Real data of the suites in PyTorch, on the device that trains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch

    from pytest_dlperf.worker.feed import Dataset
    from pytest_dlperf.worker.frameworks.torch.job import TorchJob


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
