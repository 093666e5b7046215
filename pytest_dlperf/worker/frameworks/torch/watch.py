"""Watches a PyTorch training: shapes and dtypes of its work, TF32, parameters, collectives."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_dlperf.core.wire_model import Checksum, ShardChecksum
from pytest_dlperf.core.wire_records import CollectivesRecord
from pytest_dlperf.worker import compiling
from pytest_dlperf.worker.frameworks import collectives
from pytest_dlperf.worker.frameworks.base import FirstCall, Framework, checksum_of, shapes_in
from pytest_dlperf.worker.frameworks.collectives import DirectCalls


def first_call() -> FirstCall:
    """Return what notes the first call of a layer."""
    return FirstCall(
        torch.nn.Module,
        lambda values: shapes_in(values, torch.Tensor),
        torch.compiler.is_compiling,
    )


class Watch:
    """Looks at two iterations of a training, and leaves what is compiled as it is.

    Without torch.compile: at the shapes in the first, at the arithmetic in the second. With it the
    first is left alone, since what Dynamo traces must be the training's own code; in the second,
    compiled functions run as plain Python, which compiles nothing and forgets nothing, and both
    are looked at. What replays a CUDA graph does nothing that can be seen: both are looked at when
    ``torch.cuda.graph`` captures it.
    """

    def __init__(self) -> None:
        self.shapes = first_call()
        self.arithmetic = FlopsByDtype()
        #: Why nobody looked, and what to do; empty otherwise.
        self.unwatched = ""
        self._restore: Callable[[], None] = lambda: None
        self._is_captured = False

    def captures(self) -> None:
        """Look at what ``torch.cuda.graph`` captures, from now until ``second``."""
        graph, watch = torch.cuda.graph, self
        enter, leave = graph.__enter__, graph.__exit__
        open_now: list[contextlib.ExitStack] = []

        def entered(capture: Any) -> Any:
            result = enter(capture)
            open_now.append(watch._captured())
            return result

        def left(capture: Any, *error: Any) -> Any:
            open_now.pop().close()
            return leave(capture, *error)

        def restore() -> None:
            graph.__enter__, graph.__exit__ = enter, leave

        graph.__enter__, graph.__exit__ = entered, left
        self._restore = restore

    def _captured(self) -> contextlib.ExitStack:
        opened = contextlib.ExitStack()
        if compiles():
            # What is captured must be the compiled code.
            self.unwatched = (
                "it replays a CUDA graph of a compiled function, in which no operation can be "
                'seen; let torch.compile(mode="reduce-overhead") capture it, or capture a '
                "function that is not compiled"
            )
            return opened
        if self.shapes.shapes is None:
            opened.enter_context(self.shapes)
        opened.enter_context(self.arithmetic)
        self._is_captured = True
        return opened

    def first(self) -> AbstractContextManager[Any]:
        """Return what is open in the first iteration."""
        return contextlib.nullcontext() if compiles() else self.shapes

    @contextlib.contextmanager
    def second(self) -> Iterator[None]:
        """Look, while open, at what the first iteration has left to see; no longer at captures."""
        self._restore()
        with contextlib.ExitStack() as opened:
            if compiles():
                if not self._is_captured:
                    # A call in the first iteration was the compiler's own, if it began there.
                    self.shapes.shapes, self.shapes.layers = None, []
                if not hasattr(torch.compiler, "set_stance"):
                    # Within a dispatch mode a compiled function is never compiled again, and the
                    # rest of the training would be measured uncompiled.
                    self.unwatched = (
                        f"PyTorch {torch.__version__} cannot run a compiled function as plain "
                        "Python for one iteration, which 2.6 can; upgrade it"
                    )
                    yield
                    return
                opened.enter_context(torch.compiler.set_stance("force_eager"))
            if self.shapes.shapes is None:
                opened.enter_context(self.shapes)
            opened.enter_context(self.arithmetic)
            yield


def compiles() -> bool:
    """Return whether this process has functions of torch.compile, called or not yet.

    That Dynamo is imported does not mean it: PyTorch's optimizers import it.
    """
    if "torch._dynamo" not in sys.modules:
        return False
    if compiling.sample().any:
        return True
    frames: Any = sys.modules.get("torch._dynamo.eval_frame")
    # Functions that are kept from the compiler are there as well, with None or False.
    return any(map(callable, getattr(frames, "cached_backends", {}).values()))


#: Attention on CPUs -> the operation on GPUs that does the same.
_ATTENTION_ON_CPUS: Final = {
    "aten._scaled_dot_product_flash_attention_for_cpu": (
        torch.ops.aten._scaled_dot_product_flash_attention
    ),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": (
        torch.ops.aten._scaled_dot_product_flash_attention_backward
    ),
}


def _of_convolution_backward(
    grad_output: torch.Tensor, inputs: torch.Tensor, weight: torch.Tensor, *rest: Any, **_: Any
) -> int:
    """Return the operations of a convolution's backward: those of its forward, once or twice.

    PyTorch 2.13's own formula counts those of the weights' gradient once for each group: 64 times
    too many in a depthwise convolution of 64 channels.
    """
    transposed, output_mask = rest[4], rest[7]
    places = (inputs if transposed else grad_output).shape[2:].numel()
    gradients = sum(map(bool, output_mask[:2]))
    found: int = 2 * gradients * inputs.shape[0] * places * weight.numel()
    return found


class FlopsByDtype(TorchDispatchMode):  # type: ignore[misc]  # torch is Any here
    """While open, counts floating-point operations of matrix products and convolutions.

    By the dtype of their first tensor; formulas are those of ``torch.utils.flop_counter``, but
    of a convolution's backward. Of a tensor that wraps others the operations on those are counted:
    of a DTensor on its shard.
    """

    def __init__(self) -> None:
        super().__init__()
        self.flops: Counter[str] = Counter()
        #: Without those of the backward pass, recomputation included, and of optimizers.
        self.forward: Counter[str] = Counter()
        self._tf32: set[tuple[str, bool]] = set()
        self._optimizers = 0
        self._hooks: list[Any] = []

    def __enter__(self) -> Any:
        """Begin to count."""
        self._hooks = [
            register_optimizer_step_pre_hook(lambda *_: self._in_optimizer(1)),
            register_optimizer_step_post_hook(lambda *_: self._in_optimizer(-1)),
        ]
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        """Count no more."""
        for hook in self._hooks:
            hook.remove()
        super().__exit__(*error)

    def tf32_seen(self) -> dict[str, list[bool]]:
        """Return what the flags for TF32 said at matrix products and convolutions in float32."""
        seen: dict[str, list[bool]] = {}
        for part, is_on in sorted(self._tf32):
            seen.setdefault(part, []).append(is_on)
        return seen

    def _in_optimizer(self, by: int) -> None:
        self._optimizers += by

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Do the operation, then count it."""
        if any(hasattr(one, "__tensor_flatten__") for one in types):
            # A tensor that wraps others (a DTensor its shard, torchao's its float8) does its work
            # on them, in operations that come here in their turn.
            return NotImplemented
        # Imported when needed: it is slow, and the first step should not wait for it.
        from torch.utils.flop_counter import flop_registry

        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = func._overloadpacket
        # PyTorch has no formula for attention on CPUs, whose arguments begin as on GPUs.
        formula = flop_registry.get(_ATTENTION_ON_CPUS.get(str(packet), packet))
        if packet is torch.ops.aten.convolution_backward:
            formula = _of_convolution_backward
        if formula is not None:
            dtype = next(a.dtype for a in args if isinstance(a, torch.Tensor))
            name, count = str(dtype).removeprefix("torch."), formula(*args, **kwargs, out_val=out)
            if name.startswith("float8"):
                name = "float8"  # e4m3 and e5m2, of weights and of gradients, are one arithmetic
            if name == "float32":
                of_convolution = "conv" in str(packet)
                part = "cudnn" if of_convolution else "matmul"
                self._tf32.add((part, _may_use_tf32(of_convolution=of_convolution)))
            self.flops[name] += count
            if not self._optimizers and torch._C._current_graph_task_id() == -1:
                self.forward[name] += count
        return out


#: Functions of ``torch.distributed`` that a step may call itself; synchronised batch
#: normalisation does.
_DIRECT: Final = (
    "all_gather",
    "all_gather_into_tensor",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
)


def sample_collectives(
    framework: Framework, step: Callable[[], Any], modules: Iterable[torch.nn.Module]
) -> CollectivesRecord:
    """Return what steps of ``modules`` take with and without averaging."""
    wrappers = {
        id(part): part
        for module in modules
        for part in module.modules()
        if isinstance(part, DistributedDataParallel)
    }
    calls = DirectCalls(
        dist, _DIRECT, framework.timer, lambda options: bool(options.get("async_op"))
    )
    return collectives.sample(framework, step, wrappers.values(), calls)


def mean_over_ranks(value: float, device: torch.device) -> float:
    """Return the mean of ``value``, the same number on every rank."""
    total = torch.tensor([value], dtype=torch.float32, device=device)
    dist.all_reduce(total)
    return float(total.item() / dist.get_world_size())


def all_reduce_of(size_bytes: int, device: torch.device) -> Callable[[], None]:
    """Return a function that starts to reduce a float32 message over the ranks."""
    message = torch.zeros(size_bytes // 4, device=device)

    def reduce() -> None:
        dist.all_reduce(message)

    return reduce


#: Side of the product that is verified.
_SIDE = 256


def set_tf32(*, on: bool) -> None:
    """Let matrix products and cuDNN use TF32, or not.

    By the first API, ``allow_tf32``, whose readers in a workload would raise after the second,
    ``fp32_precision`` of PyTorch 2.9; that one always answers, for both.
    """
    torch.backends.cuda.matmul.allow_tf32 = on
    torch.backends.cudnn.allow_tf32 = on


def tf32() -> dict[str, bool]:
    """Return what may use TF32 now: ``matmul``, and ``cudnn`` if convolutions or RNNs may."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if not hasattr(matmul, "fp32_precision"):
        return {"matmul": bool(matmul.allow_tf32), "cudnn": bool(cudnn.allow_tf32)}
    parts = (cudnn.conv, cudnn.rnn)
    return {
        "matmul": matmul.fp32_precision == "tf32",
        "cudnn": any(part.fp32_precision == "tf32" for part in parts),
    }


def _may_use_tf32(*, of_convolution: bool) -> bool:
    """Return whether a convolution, or else a matrix product, may use TF32 now."""
    backends = torch.backends
    of_op = backends.cudnn if of_convolution else backends.cuda.matmul
    if not hasattr(backends.cuda.matmul, "fp32_precision"):
        return bool(of_op.allow_tf32)
    return bool((of_op.conv if of_convolution else of_op).fp32_precision == "tf32")


def product_error(device: torch.device) -> float:
    """Return the relative error of one float32 product of random numbers, against float64.

    About 2e-7 in float32, 3e-4 in TF32 (10 bits of mantissa), 2e-3 in bfloat16: the Frobenius
    norm of the difference over that of the product.
    """
    made = torch.Generator().manual_seed(1)
    left, right = (torch.randn(_SIDE, _SIDE, generator=made).to(device) for _ in range(2))
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        product = (left @ right).double().cpu()
        exact = left.double().cpu() @ right.double().cpu()
    return float((product - exact).norm() / exact.norm())


#: Tensors that are shards by hand, each with the number of its part.
_ByHand = Sequence[tuple[int, torch.Tensor]]


def held(modules: Iterable[torch.nn.Module], shards: _ByHand) -> dict[str, int]:
    """Return how many parameters this rank has in memory, by which shard of them it is.

    Those that it has whole are under the empty text.
    """
    parts = {id(parameter): _part(number) for number, parameter in shards}
    found: Counter[str] = Counter()
    for parameter in (p for module in modules for p in module.parameters()):
        place = parts.pop(id(parameter), None) or _place(parameter) or ""
        found[place] += _local(parameter).numel()
    for number, parameter in shards:
        if id(parameter) in parts:
            found[_part(number)] += parameter.numel()
    return dict(found)


def trains_all(modules: Iterable[torch.nn.Module]) -> bool:
    """Return whether every matrix is trained: a frozen one has half a backward pass, or none."""
    return all(p.requires_grad for module in modules for p in module.parameters() if p.dim() > 1)


def _part(number: int) -> str:
    return f"part {number}"


def checksum(parameters: Sequence[torch.Tensor], shards_by_hand: _ByHand = ()) -> Checksum:
    """Return a digest of the bytes of ``parameters``, in order.

    Of a DTensor the local tensor counts. Those that are sharded have a digest of their own, since
    only ranks with the same shards have equal ones.
    """
    whole, shards, place = [], [], hashlib.blake2b(digest_size=16)
    parts = {id(parameter): _part(number) for number, parameter in shards_by_hand}
    declared = [p for p in parameters if id(p) not in parts]
    for parameter in [*declared, *(parameter for _, parameter in shards_by_hand)]:
        where = parts.get(id(parameter)) or _place(parameter)
        if where is None:
            whole.append(_local(parameter))
        else:
            place.update(f"{where};".encode())
            shards.append(_local(parameter))
    found = checksum_of(map(_bytes_of, whole))
    if shards:
        of_shards = checksum_of(map(_bytes_of, shards))
        found["shards"] = ShardChecksum(
            digest=of_shards["digest"], tensors=of_shards["tensors"], place=place.hexdigest()
        )
    return found


def _place(parameter: Any) -> str | None:
    """Return the placements of a DTensor and which shard is here; None for a whole tensor."""
    if not hasattr(parameter, "placements"):
        return None
    coordinates = parameter.device_mesh.get_coordinate() or ()
    parts = [
        (repr(placement), at)
        for placement, at in zip(parameter.placements, coordinates, strict=False)
        if not placement.is_replicate()
    ]
    return repr(parts) if parts else None


def _local(parameter: Any) -> torch.Tensor:
    local = parameter.detach()
    # The data pointer of a DTensor is null.
    return local.to_local() if hasattr(local, "to_local") else local


def _bytes_of(tensor: torch.Tensor) -> bytes:
    host = tensor.cpu().contiguous()
    return ctypes.string_at(host.data_ptr(), host.numel() * host.element_size())
