"""A small training in bfloat16, with a fault where the option ``planted`` names one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F

WIDTH, BLOCKS, TOKENS = 64, 3, 32


class Block(nn.Module):
    """A norm and two linear layers, added to their input."""

    def __init__(self, planted: str) -> None:
        super().__init__()
        self.planted = planted
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)
        self.kept: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.up(self.norm(x))
        if self.planted == "product":
            with torch.no_grad():
                self.up(x)
        if self.planted == "gather":
            whole = x.new_empty((dist.get_world_size() * len(x), *x.shape[1:]))
            dist.all_gather_into_tensor(whole, x.detach())
        if self.planted == "doubled":
            self.kept.append(hidden.clone())
        if self.planted == "break":
            torch._dynamo.graph_break()
        with torch.autocast(x.device.type, enabled=self.planted != "float32"):
            if self.planted == "float32":
                hidden = hidden.float()
            return x + self.down(F.gelu(hidden))


class Model(nn.Module):
    def __init__(self, planted: str) -> None:
        super().__init__()
        where = ("", planted, "")
        self.blocks = nn.ModuleList(Block(name) for name in where[:BLOCKS])
        self.head = nn.Linear(WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def build(job: Any) -> Callable[[], torch.Tensor]:
    planted = str(job.options.get("planted", ""))
    model = Model(planted)
    if job.options.get("compile"):
        for block in model.blocks:
            block.compile()
    trained: nn.Module = model
    if job.parallel.data == "fsdp2":
        model.to(job.device)
        for block in model.blocks:
            fully_shard(block, mesh=job.mesh["dp"])
        fully_shard(model, mesh=job.mesh["dp"])
        job.modules.append(model)
    else:
        trained = job.data_parallel(model)
    unfused = {"fused": False, "foreach": False}
    fused = {"fused": job.device.type == "cuda"}
    optimizer = torch.optim.AdamW(
        model.parameters(), **(unfused if planted == "unfused" else fused)
    )
    x = torch.randn(job.batch_size_per_device, TOKENS, WIDTH, device=job.device)

    def step() -> torch.Tensor:
        for block in model.blocks:
            block.kept.clear()
        with torch.set_grad_enabled(planted == "grad"), job.autocast():
            watched = model(x) if job.options.get("watch") else None
        with job.autocast():
            loss = trained(x).float().square().mean()
        if planted == "item" and loss.item() > 1e9:
            raise ValueError("the loss is not finite")
        loss.backward()
        if planted == "full":
            model.blocks[1].up.weight.grad.full_tensor()
        optimizer.step()
        optimizer.zero_grad()
        del watched
        return loss

    return step


def build_reading(job: Any) -> Callable[[], torch.Tensor]:
    with open("/no-such-folder/tokens.bin", "rb") as file:
        file.read()
    raise AssertionError


def build_on_cuda(job: Any) -> Callable[[], torch.Tensor]:
    torch.cuda.set_device(0)
    raise AssertionError


def build_exiting(job: Any) -> Callable[[], torch.Tensor]:
    raise SystemExit(3)


def build_large(job: Any) -> Callable[[], torch.Tensor]:
    """100 GB of weights, as many gradients, and as large activations."""
    weight = nn.Parameter(torch.randn(160_000, 160_000, device=job.device))
    optimizer = torch.optim.SGD([weight], lr=1e-3, momentum=0.9)

    def step() -> torch.Tensor:
        loss = (weight @ weight[0]).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


@torch.library.custom_op("costly::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def build_unknown(job: Any) -> Callable[[], torch.Tensor]:
    x = torch.randn(8, device=job.device)

    def step() -> torch.Tensor:
        return unknown(x).sum()

    return step


def build_unique(job: Any) -> Callable[[], torch.Tensor]:
    x = torch.randint(9, (8,), device=job.device)

    def step() -> torch.Tensor:
        return torch.unique(x).sum()

    return step


def build_misspelt(job: Any) -> Callable[[], torch.Tensor]:
    x = torch.randn(8, device=job.device)

    def step() -> torch.Tensor:
        return x.summ()

    return step


def build_numpy(job: Any) -> Callable[[], torch.Tensor]:
    x = torch.randn(8, device=job.device)

    def step() -> torch.Tensor:
        return x * float(x.cpu().numpy().mean())

    return step


def build_mask(job: Any) -> Callable[[], torch.Tensor]:
    x = torch.randn(8, 4, device=job.device)

    def step() -> torch.Tensor:
        return x[x[:, 0] > 0].sum()

    return step


def build_sparse(job: Any) -> Callable[[], torch.Tensor]:
    """A table whose gradient has the rows alone that were looked up."""
    bag = nn.EmbeddingBag(1000, WIDTH, mode="sum", sparse=True, device=job.device)
    optimizer = torch.optim.Adagrad(bag.parameters())
    rows = torch.randint(1000, (8, 3), device=job.device)

    def step() -> torch.Tensor:
        loss = bag(rows).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def build_length(job: Any) -> Callable[[], torch.Tensor]:
    lengths = torch.randint(9, (8,), device=job.device)

    def step() -> torch.Tensor:
        return torch.zeros(int(lengths.max()), device=job.device).sum()

    return step


def build_hybrid(job: Any) -> Callable[[], torch.Tensor]:
    """Shards within nodes of eight, copies of them over nodes."""
    lengths = (job.world_size // 8, 8)
    mesh = init_device_mesh(job.device.type, lengths, mesh_dim_names=("replicate", "shard"))
    model = Model("").to(job.device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(8, WIDTH, device=job.device)

    def step() -> torch.Tensor:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def build_stages(job: Any) -> Callable[[], torch.Tensor]:
    """A pipeline of blocks, one forward and one backward, with four microbatches."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    number, stages = job.parallel.stage(job.rank), job.parallel.pp
    part = Block("").to(job.device)
    job.modules.append(part)
    x = torch.randn(8, WIDTH, device=job.device)
    piece = x[:2].clone().requires_grad_()
    stage = PipelineStage(
        part, number, stages, job.device, input_args=(piece if number else x[:2],),
        output_args=(piece,), group=job.mesh["pp"].get_group(),
    )  # fmt: skip
    schedule = Schedule1F1B(stage, 4, loss_fn=lambda out, target: (out - target).square().mean())
    optimizer = torch.optim.AdamW(part.parameters(), fused=True)

    def step() -> torch.Tensor:
        losses: list[torch.Tensor] = []
        if number == 0:
            schedule.step(x)
        elif number == stages - 1:
            schedule.step(target=x, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
        return losses[0] if losses else x.sum()

    return step


def build_context(job: Any) -> Callable[[], torch.Tensor]:
    """Attention whose sequence is split over the ranks."""
    from torch.distributed.tensor.experimental import context_parallel

    inputs = nn.Linear(WIDTH, WIDTH).to(job.device)

    def step() -> torch.Tensor:
        x = torch.randn(2, 64, WIDTH, device=job.device)
        with context_parallel(job.mesh["cp"], buffers=[x], buffer_seq_dims=[1]):
            heads = inputs(x).unflatten(-1, (4, -1)).transpose(1, 2).bfloat16()
            loss = F.scaled_dot_product_attention(heads, heads, heads, is_causal=True).sum()
            loss.backward()
        return loss

    return step


def build_waits(job: Any) -> Callable[[], torch.Tensor]:
    """Waits in every way; numbers of the host are none."""
    x = torch.randn(8, device=job.device)
    on_host = torch.ones(3)

    def step() -> torch.Tensor:
        loss = x.sum()
        if loss > 1:
            return loss
        float(on_host[0])
        on_host.tolist()
        loss.cpu()
        x.tolist()
        return loss

    return step


@torch.library.custom_op("costly::moved", mutates_args=())
def moved(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    return x.to(device, copy=True)


@moved.register_fake
def _(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    return x.new_empty(x.shape, device=device)


def build_by_name(job: Any) -> Callable[[], torch.Tensor]:
    """Names the arguments of a mesh, and no argument that is a device."""
    x = torch.randn(8, WIDTH, device=job.device)
    mesh = DeviceMesh(device_type=job.device.type, mesh=[0, 2])

    def step() -> torch.Tensor:
        out = moved(x, job.device)
        dist.all_reduce(out, group=mesh.get_group())
        return out.sum()

    return step


@torch.library.custom_op("costly::moved_to", mutates_args=())
def moved_to(x: torch.Tensor, *, target: torch.device) -> torch.Tensor:
    return x.to(target, copy=True)


@moved_to.register_fake
def _(x: torch.Tensor, *, target: torch.device) -> torch.Tensor:
    return x.new_empty(x.shape, device=target)


def build_target(job: Any) -> Callable[[], torch.Tensor]:
    x = torch.randn(8, WIDTH, device=job.device)

    def step() -> torch.Tensor:
        return moved_to(x, target=job.device).sum()

    return step


class Cycle:
    """Holds a tensor until Python's garbage collector runs."""

    def __init__(self, held: torch.Tensor) -> None:
        self.held, self.own = held, self


def build_cycles(job: Any) -> Callable[[], torch.Tensor]:
    x = torch.randn(8, WIDTH, device=job.device)

    def step() -> torch.Tensor:
        for _ in range(50):
            Cycle(torch.empty_like(x))
        return x.sum()

    return step


def build_waited(job: Any) -> Callable[[], torch.Tensor]:
    """Ends each collective, and each group of them, before anything else is done."""
    x = torch.randn(8, WIDTH, device=job.device)
    whole = torch.empty(8 * job.world_size, WIDTH, device=job.device)

    def step() -> torch.Tensor:
        dist.all_reduce(whole)
        x.add_(1.0)
        dist.all_gather_into_tensor(whole, x)
        x.add_(1.0)
        dist.reduce_scatter_tensor(x, whole)
        whole.add_(1.0)
        dist.all_to_all_single(whole, whole + 1.0)
        x.add_(1.0)
        with dist._coalescing_manager(device=job.device):
            dist.all_reduce(whole)
        x.add_(1.0)
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, whole, 1), dist.P2POp(dist.irecv, x, 1)
        ])  # fmt: skip
        for work in works:
            work.wait()
        return (whole[:8] * 2.0).sum() + x.sum()

    return step


@torch.library.custom_op("c10d::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@turned.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def build_turned(job: Any) -> Callable[[], torch.Tensor]:
    """Has a collective as only a newer PyTorch may have it."""
    x = torch.randn(8, WIDTH, device=job.device)

    def step() -> torch.Tensor:
        return turned(x).sum()

    return step


def build_twice(job: Any) -> Callable[[], torch.Tensor]:
    """Starts two collectives on one tensor, and waits for the first alone."""
    x = torch.randn(8, WIDTH, device=job.device)
    y = torch.randn(8, WIDTH, device=job.device)

    def step() -> torch.Tensor:
        first = dist.all_reduce(x, async_op=True)
        dist.all_reduce(x, async_op=True)
        first.wait()
        y.add_(1.0)
        return x.sum()

    return step


def build_dropped(job: Any) -> Callable[[], torch.Tensor]:
    """Reduces tensors that nobody uses, whose memory others get."""
    x = torch.randn(8, WIDTH, device=job.device)

    def step() -> torch.Tensor:
        for _ in range(20):
            dist.all_reduce(torch.empty_like(x), async_op=True)
            torch.empty_like(x).fill_(0.0)
        return x.sum()

    return step


def build_gather(job: Any) -> Callable[[], torch.Tensor]:
    """Gathers a tensor over the dimension of the mesh that the option ``over`` names."""
    x = torch.randn(8, WIDTH, device=job.device)
    mesh = job.mesh[job.options["over"]]

    def step() -> torch.Tensor:
        whole = x.new_empty((mesh.size() * len(x), WIDTH))
        dist.all_gather_into_tensor(whole, x, group=mesh.get_group())
        return whole.sum()

    return step
