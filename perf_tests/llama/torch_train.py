"""Trains Llama under DistributedDataParallel, FSDP2, tensor parallelism, or the last two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional as F

from .recipe import BETAS, SIZES, WEIGHT_DECAY, Size
from .torch_model import Llama, initialize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from torch.distributed.device_mesh import DeviceMesh

    from pytest_dlperf.worker.frameworks.torch.job import TorchJob


def split_block(block: nn.Module, mesh: DeviceMesh) -> None:
    """Give each rank of ``mesh`` a part of the heads and of the hidden channels."""
    columns, rows = ColwiseParallel(), RowwiseParallel()
    plan = {
        "attention.queries": columns,
        "attention.keys": columns,
        "attention.values": columns,
        "attention.out": rows,
        "feed_forward.gate": columns,
        "feed_forward.up": columns,
        "feed_forward.down": rows,
    }
    parallelize_module(block, mesh, plan)


def place(model: Llama, job: TorchJob) -> None:
    """Fill the model part by part, and split or shard each at once.

    So that no rank ever holds more than its own shards and one part.
    """
    shards, splits = job.parallel.data == "fsdp2", job.parallel.tp > 1
    policy = MixedPrecisionPolicy()
    if job.precision in {"bf16", "fp8"}:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    parts = [model.embedding, *model.blocks, model.norm, model.head]
    for index, part in enumerate(parts):
        part.to_empty(device=job.device)
        initialize(part, job.seed * 1009 + index)
        if splits and part is model.head:
            whole = ColwiseParallel(output_layouts=Replicate())
            parallelize_module(part, job.mesh["tp"], whole)
        elif splits and 0 < index <= len(model.blocks):
            split_block(part, job.mesh["tp"])
        if shards:
            fully_shard(part, mesh=job.mesh["dp"], mp_policy=policy)
    if shards:
        fully_shard(model, mesh=job.mesh["dp"], mp_policy=policy)


def convert_to_float8(model: Llama) -> None:
    """Make the linear layers of the blocks multiply in float8; the head stays in bfloat16."""
    # Not needed for any other precision
    from torchao.float8 import convert_to_float8_training

    for block in model.blocks:
        convert_to_float8_training(block)


def groups(parameters: Iterable[nn.Parameter]) -> list[dict[str, Any]]:
    """Return the optimizer's groups: weights decay, norms do not; DTensors are apart.

    The fused and the foreach update take no mixture of DTensors and tensors.
    """
    found: dict[tuple[bool, Any], list[nn.Parameter]] = {}
    for parameter in parameters:
        mesh = getattr(parameter, "device_mesh", None)
        found.setdefault((parameter.dim() > 1, mesh), []).append(parameter)
    return [
        {"params": members, "weight_decay": WEIGHT_DECAY if decays else 0.0}
        for (decays, _), members in found.items()
    ]


def text_of(job: TorchJob, size: Size) -> tuple[torch.Tensor, torch.Tensor]:
    """Return tokens and those after them: one batch, the same on all ranks of a replica."""
    shape = (job.batch_size_per_device, size.sequence + 1)
    tokens = torch.randint(size.vocabulary, shape, generator=job.generator(), device=job.device)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def build(job: TorchJob) -> Callable[[], torch.Tensor]:
    """Return one training iteration.

    Options: ``model`` (8b, 350m), ``sequence`` (tokens, where not the model's own), ``compile``
    (each block), ``recompute`` (activations, in backward).
    """
    parallel = job.parallel
    if parallel.data not in {"", "ddp", "fsdp2"} or parallel.split > parallel.tp:
        raise ValueError("this suite is parallel by ddp, fsdp2, tpN, or fsdp2-tpN")
    if parallel.tp > 1 and job.replicas > 1 and parallel.data != "fsdp2":
        raise ValueError("replicas of a model that tpN splits are sharded here: fsdp2-tpN")
    if parallel.tp > 1 and job.precision == "fp8":
        raise ValueError("in fp8 this suite is parallel by ddp or fsdp2")
    size = SIZES["tiny" if job.size == "tiny" else str(job.options["model"])]
    size = size._replace(sequence=int(job.options.get("sequence", size.sequence)))
    with torch.device("meta"):
        model = Llama(size, recompute=bool(job.options.get("recompute")))
    if job.precision == "fp8":
        convert_to_float8(model)
    place(model, job)
    if job.options.get("compile"):
        for block in model.blocks:
            block.compile()
    trained: nn.Module = model
    if parallel.data == "fsdp2" or parallel.tp > 1:
        job.modules.append(model)
        job.replicated(model.parameters())
    else:
        trained = job.data_parallel(model)
    optimizer = torch.optim.AdamW(
        groups(model.parameters()),
        lr=size.learning_rate,
        betas=BETAS,
        fused=job.device.type == "cuda",
    )
    tokens, after = text_of(job, size)
    job.work(tokens.numel())

    def step() -> torch.Tensor:
        with job.autocast():
            logits = trained(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), after.flatten())
        job.backward(loss, optimizer)
        return loss

    return step
