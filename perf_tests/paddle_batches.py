"""Data of the suites in Paddle, on the device that trains, and what a tuned case asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paddle

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from pytest_dlperf.worker.feed import Dataset
    from pytest_dlperf.worker.frameworks.paddle.job import PaddleJob

#: What autocast computes in.
HALF = {"amp": "float16", "bf16": "bfloat16"}


def is_tuned(job: PaddleJob) -> bool:
    """Return whether the case has the option ``tuned``: trained as one would now, not as then.

    Then the optimizer is one call for a group of parameters, images are channels last where cuDNN
    computes so, and, where they are synthetic, in the type that is computed in.
    """
    # Nothing is asked of DataParallel: it looks for no unused parameters as it is, and has no
    # gradients that are views of what is reduced. Only GPUs can say which buffers are better.
    return bool(job.options.get("tuned"))


def optimizer_options(job: PaddleJob) -> dict[str, Any]:
    """Return what a tuned case gives to ``Momentum``.

    It spares a call from Python for each parameter. Paddle 3.3 still launches a kernel for each,
    since Momentum gives each a rate and a decay of its own; nor is AMP's wait for the GPU spared:
    Paddle's scaler asks in each step whether something overflowed, whatever the optimizer is.
    """
    return {"use_multi_tensor": True} if is_tuned(job) else {}


def set_flags(job: PaddleJob) -> None:
    """Set the options that are flags of Paddle, ``FLAGS_...``."""
    flags = {name: value for name, value in job.options.items() if name.startswith("FLAGS_")}
    if flags:
        paddle.set_flags(flags)


def layout_of(job: PaddleJob) -> str:
    """Return the layout of images: ``NHWC`` or ``NCHW``.

    Paddle's convolutions compute channels last in half types alone; in float32 each would
    transpose what it is given to channels first, and its output back.
    """
    return "NHWC" if is_tuned(job) and job.precision in HALF else "NCHW"


def spatial_axes(layout: str) -> list[int]:
    """Return the axes of height and width."""
    return [layout.index("H"), layout.index("W")]


def in_layout(job: PaddleJob, images: paddle.Tensor) -> paddle.Tensor:
    """Return images (..., channels, height, width) in the layout of the case."""
    if layout_of(job) == "NCHW":
        return images
    *leading, channels, height, width = range(images.ndim)
    # Else it is a view, which each step would copy again.
    return images.transpose([*leading, height, width, channels]).contiguous()


def synthetic(job: PaddleJob, images: np.ndarray[Any, Any]) -> paddle.Tensor:
    """Return images on the device; of a tuned case no step transposes or casts them again."""
    dtype = HALF.get(job.precision, job.dtype) if is_tuned(job) else job.dtype
    return in_layout(job, paddle.to_tensor(images)).astype(dtype)


def batches_of(job: PaddleJob, dataset: Dataset) -> Iterator[tuple[paddle.Tensor, paddle.Tensor]]:
    """Return this rank's batches of images and labels without end, in the case's layout."""
    batches = job.batches(job.loader(dataset))
    return ((in_layout(job, images), labels) for images, labels in batches)
