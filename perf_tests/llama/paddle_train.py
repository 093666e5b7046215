"""Trains Llama in Paddle, under DataParallel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle
from paddle.nn import functional as F

from .paddle_model import Llama
from .recipe import BETAS, SIZES, WEIGHT_DECAY, Size

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_dlperf.worker.frameworks.paddle.job import PaddleJob

#: What PyTorch's AdamW adds to a root.
_EPSILON = 1e-8


def adamw(model: Llama, rate: float) -> paddle.optimizer.AdamW:
    """Return the optimizer: weights decay, norms do not."""
    decaying = {parameter.name for parameter in model.parameters() if parameter.ndim > 1}
    return paddle.optimizer.AdamW(
        rate,
        *BETAS,
        _EPSILON,
        parameters=model.parameters(),
        weight_decay=WEIGHT_DECAY,
        apply_decay_param_fun=decaying.__contains__,
    )


def text_of(job: PaddleJob, size: Size) -> tuple[paddle.Tensor, paddle.Tensor]:
    """Return tokens and those after them: one batch of this rank."""
    shape = (job.batch_size_per_device, size.sequence + 1)
    tokens = job.generator().integers(size.vocabulary, size=shape)
    return paddle.to_tensor(tokens[:, :-1]), paddle.to_tensor(tokens[:, 1:])


def build(job: PaddleJob) -> Callable[[], paddle.Tensor]:
    """Return one training iteration.

    Options: ``model`` (350m), ``sequence`` (tokens, where not the model's own), ``recompute``
    (activations, in backward).
    """
    if int(paddle.__version__.partition(".")[0]) < 3:
        raise ValueError(
            f"this suite needs Paddle 3, and this is {paddle.__version__}, whose causal attention "
            "runs on GPUs alone, in half precision; install paddlepaddle>=3"
        )
    if job.parallel.data not in {"", "ddp"} or job.parallel.split > 1:
        raise ValueError("in Paddle this suite is parallel by ddp")
    size = SIZES["tiny" if job.size == "tiny" else str(job.options["model"])]
    size = size._replace(sequence=int(job.options.get("sequence", size.sequence)))
    model = Llama(size, recompute=bool(job.options.get("recompute")))
    optimizer = adamw(model, size.learning_rate)
    trained = job.data_parallel(model)
    tokens, after = text_of(job, size)
    job.work(job.batch_size_per_device * size.sequence)

    def step() -> paddle.Tensor:
        with job.autocast():
            logits = trained(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1).astype("float32"), after.flatten())
        job.backward(loss, optimizer)
        return loss

    return step
