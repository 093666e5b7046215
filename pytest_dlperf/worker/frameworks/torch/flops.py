"""Counts the floating-point operations of a step in PyTorch, by the dtype that they are in."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode

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


def _may_use_tf32(*, of_convolution: bool) -> bool:
    """Return whether a convolution, or else a matrix product, may use TF32 now."""
    backends = torch.backends
    of_op = backends.cudnn if of_convolution else backends.cuda.matmul
    if not hasattr(backends.cuda.matmul, "fp32_precision"):
        return bool(of_op.allow_tf32)
    return bool((of_op.conv if of_convolution else of_op).fp32_precision == "tf32")
