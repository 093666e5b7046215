"""Counts the floating-point operations of a step in PyTorch, by the dtype that they are in."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_dlperf.worker.frameworks.base import Uncounted

#: Attention on CPUs -> the operation on GPUs that does the same.
_ATTENTION_ON_CPUS: Final = {
    "_scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu_backward": (
        "_scaled_dot_product_flash_attention_backward"
    ),
}


def _convolution_backward_flops(
    grad_output: torch.Tensor, inputs: torch.Tensor, weight: torch.Tensor, *rest: Any, **_: Any
) -> int:
    """Return the operations of a convolution's backward: those of its forward, once or twice.

    PyTorch 2.13's own formula counts those of the weights' gradient once for each group: 64 times
    too many in a depthwise convolution of 64 channels.
    """
    transposed, output_mask = rest[4], rest[7]
    places = (inputs if transposed else grad_output).shape[2:].numel()
    gradients = sum(map(bool, output_mask[:2]))
    count: int = 2 * gradients * inputs.shape[0] * places * weight.numel()
    return count


def _product_flops(left: torch.Tensor, right: torch.Tensor, *_: Any, **__: Any) -> int:
    """Return the operations of a product of matrices, or of a matrix and a vector."""
    columns = right.shape[-1] if right.dim() > 1 else 1
    return int(2 * left.numel() * columns)


def _added_product_flops(_added: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *_: Any,
                      **__: Any) -> int:  # fmt: skip
    return _product_flops(left, right)


def _linear_flops(inputs: torch.Tensor, weight: torch.Tensor, *_: Any, **__: Any) -> int:
    return int(2 * inputs.numel() * weight.shape[0])


def _linear_backward_flops(inputs: torch.Tensor, gradient: torch.Tensor, weight: torch.Tensor,
                        output_mask: Sequence[bool], **_: Any) -> int:  # fmt: skip
    return int(2 * gradient.numel() * weight.shape[1] * sum(map(bool, output_mask[:2])))


def _grouped_product_flops(left: torch.Tensor, right: torch.Tensor, *_: Any, **__: Any) -> int:
    """Return the operations of products of groups of rows, or of columns, by a matrix each.

    Every row, or column, belongs to one group, so that the groups' sizes do not matter.
    """
    return int(2 * left.numel() * right.shape[-1])


def _layer_flops(inputs: torch.Tensor, matrices: Sequence[torch.Tensor]) -> int:
    """Return the operations of a recurrent layer forward: a product of each place and matrix."""
    places = math.prod(inputs.shape[:-1])
    return int(2 * places * sum(one.numel() for one in matrices if one.dim() > 1))


def _rnn_flops(inputs: torch.Tensor, weights: Sequence[torch.Tensor], *_: Any, **__: Any) -> int:
    return _layer_flops(inputs, weights)


def _rnn_backward_flops(inputs: torch.Tensor, weights: Sequence[torch.Tensor], *rest: Any,
                     **__: Any) -> int:  # fmt: skip
    # The gradients of the places, and where they are asked for those of the weights
    return (1 + bool(rest[-1][3])) * _layer_flops(inputs, weights)


def _rnn_on_cpus_flops(inputs: torch.Tensor, *rest: Any, **__: Any) -> int:
    return _layer_flops(inputs, rest[:2])


def _rnn_on_cpus_backward_flops(inputs: torch.Tensor, *rest: Any, **__: Any) -> int:
    return 2 * _layer_flops(inputs, rest[:2])


#: Operators of ``aten`` that PyTorch has no formula for, or a wrong one.
_FORMULAS: Final[Mapping[str, Callable[..., int]]] = {
    "_cudnn_rnn": _rnn_flops,
    "_cudnn_rnn_backward": _rnn_backward_flops,
    "_grouped_mm": _grouped_product_flops,
    "_int_mm": _product_flops,
    "_scaled_grouped_mm": _grouped_product_flops,
    "_scaled_grouped_mm_v2": _grouped_product_flops,
    "_scaled_mm_v2": _product_flops,
    "addbmm": _added_product_flops,
    "addmv": _added_product_flops,
    "convolution_backward": _convolution_backward_flops,
    "linear": _linear_flops,
    "linear_backward": _linear_backward_flops,
    "miopen_rnn": _rnn_flops,
    "miopen_rnn_backward": _rnn_backward_flops,
    "mkldnn_rnn_layer": _rnn_on_cpus_flops,
    "mkldnn_rnn_layer_backward": _rnn_on_cpus_backward_flops,
    "mv": _product_flops,
}
#: Namespaces of operators that do no matrix work, besides ``aten``.
_WITHOUT_PRODUCTS: Final = frozenset({
    "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "c10d", "c10d_functional",
    "debugprims", "fsdp", "inductor", "prim", "prims", "profiler", "rngprims", "streams",
})  # fmt: skip
#: Operators of ``aten`` that multiply matrices, by their names; and what only sounds like them.
_MULTIPLIES: Final = re.compile(
    r"(?:^|_)(?:[a-z]*mm|[a-z]*matmul|mv|conv\w*|attention|rnn|lstm|gru|linear|encoder_layer_fwd"
    r"|trilinear)(?:_|$)"
)
_MULTIPLIES_NOT: Final = re.compile(r"flatten|reorder|convert|combination|thnn_(?:fused|diff)")


class FlopsByDtype(TorchDispatchMode):  # type: ignore[misc]  # torch is Any here
    """While open, counts floating-point operations of matrix products and convolutions.

    By the dtype of their first tensor; formulas are those of ``torch.utils.flop_counter``, which
    a user's own operators may be registered with, and those above. Of a tensor that wraps others
    the operations on those are counted: of a DTensor on its shard. What ran without a formula,
    and may multiply, is in ``uncounted``. Nothing that is raised here reaches the training.
    """

    #: Else FlexAttention, which is one, raises within any mode.
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.flops: Counter[str] = Counter()
        #: Without those of the backward pass, recomputation included, and of optimizers.
        self.forward: Counter[str] = Counter()
        self.uncounted = Uncounted()
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

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return that torch.compile need not heed it.

        It refuses to compile within others, and leaves to Python for good what it met there.
        """
        return True

    def add(self, other: FlopsByDtype) -> None:
        """Count what ``other`` counted here as well."""
        self.flops.update(other.flops)
        self.forward.update(other.forward)
        self.uncounted.update_all(other.uncounted)
        self._tf32 |= other._tf32

    def tf32_seen(self) -> dict[str, list[bool]]:
        """Return what the flags for TF32 said at matrix products and convolutions in float32."""
        by_part: dict[str, list[bool]] = {}
        for part, is_on in sorted(self._tf32):
            by_part.setdefault(part, []).append(is_on)
        return by_part

    def _in_optimizer(self, by: int) -> None:
        self._optimizers += by

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Do the operation, then count it."""
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            # A tensor that wraps others (a DTensor its shard, torchao's its float8) does its work
            # on them, in operations that come here in their turn.
            return NotImplemented
        kwargs = kwargs or {}
        if torch.is_inference_mode_enabled() and _is_decomposed(func, args):
            # Without autograd, an operator comes here whole: what it is made of has formulas
            with self:
                out = func.decompose(*args, **kwargs)
            if out is not NotImplemented:
                return out
        out = func(*args, **kwargs)
        name = str(func)
        try:
            packet, name = packet_of(func)
            self._count(packet, name, args, kwargs, out)
        except Exception:  # noqa: BLE001  # a formula's own: the training goes on
            self.uncounted.note(name, ())
        return out

    def _count(self, packet: Any, name: str, args: tuple[Any, ...], kwargs: Any, out: Any) -> None:
        counted = operator_flops(packet, name, args, kwargs, out)
        if counted is None:
            if (dtypes := uncounted_dtypes(packet, name, args, kwargs)) is not None:
                self.uncounted.note(name, dtypes)
            return
        if counted.dtype == "float32":
            part = "cudnn" if counted.part != "matmul" else "matmul"
            self._tf32.add((part, may_use_tf32(counted.part)))
        self.flops[counted.dtype] += counted.flops
        if not self._optimizers and torch._C._current_graph_task_id() == -1:
            self.forward[counted.dtype] += counted.flops


class OperatorFlops(NamedTuple):
    """What one call of an operator multiplies."""

    flops: int
    #: Of its first tensor.
    dtype: str
    #: ``conv``, ``rnn`` or ``matmul``: whose flag for TF32 counts.
    part: str


def operator_flops(
    packet: Any, name: str, args: tuple[Any, ...], kwargs: Any, out: Any
) -> OperatorFlops | None:
    """Return the operations of a call that returned ``out``; None if nothing here can count them.

    ``packet`` and ``name`` are those of ``packet_of``. Raises what a formula raises.
    """
    formula = _formula_of(packet, name)
    if formula is None:
        return None
    tensors = _tensors_in(args, kwargs)
    if any(map(_is_sparse, tensors)):
        return None
    part = "conv" if "conv" in name else "rnn" if "rnn" in name else "matmul"
    return OperatorFlops(formula(*args, **kwargs, out_val=out), _dtype_of(tensors[0]), part)


def uncounted_dtypes(
    packet: Any, name: str, args: tuple[Any, ...], kwargs: Any
) -> list[str] | None:
    """Return the dtypes of a call that may multiply and that has no count; else None."""
    if _formula_of(packet, name) is None and not _may_multiply(name):
        return None
    return [_dtype_of(tensor) for tensor in _tensors_in(args, kwargs)]


def _tensors_in(args: tuple[Any, ...], kwargs: Any) -> list[torch.Tensor]:
    return [tensor for tensor in trees.tree_leaves((args, kwargs)) if _is_tensor(tensor)]


def _is_decomposed(func: Any, args: tuple[Any, ...]) -> bool:
    # A nested tensor has operators of its own for what others are made of
    return hasattr(func, "decompose") and not any(_is_tensor(a) and a.is_nested for a in args)


def packet_of(func: Any) -> tuple[Any, str]:
    """Return an operator without its overload, and its name; a higher-order one has none."""
    packet = getattr(func, "_overloadpacket", func)
    return packet, f"{func.namespace}::{packet.__name__}"


def _formula_of(packet: Any, name: str) -> Callable[..., int] | None:
    # Imported when needed: it is slow, and the first step should not wait for it.
    from torch.utils.flop_counter import flop_registry

    namespace, _, plain = name.partition("::")
    if namespace == "aten":
        # In place it is the same work; PyTorch has no formula for attention on CPUs, whose
        # arguments begin as on GPUs
        plain = _ATTENTION_ON_CPUS.get(plain, plain.removesuffix("_"))
        if plain in _FORMULAS:
            return _FORMULAS[plain]
        packet = getattr(torch.ops.aten, plain, packet)
    formula: Callable[..., int] | None = flop_registry.get(packet)
    return formula


def _may_multiply(name: str) -> bool:
    """Return whether an operator without a formula may do matrix work."""
    namespace, _, plain = name.partition("::")
    if namespace == "aten":
        return bool(_MULTIPLIES.search(plain)) and not _MULTIPLIES_NOT.search(plain)
    return namespace not in _WITHOUT_PRODUCTS


def _is_tensor(value: object) -> bool:
    return isinstance(value, torch.Tensor)


def _is_sparse(tensor: torch.Tensor) -> bool:
    # Formulas count the zeros as well
    return str(tensor.layout).startswith("torch.sparse")


def _dtype_of(tensor: torch.Tensor) -> str:
    name = str(tensor.dtype).removeprefix("torch.")
    # e4m3 and e5m2, of weights and of gradients, are one arithmetic
    return "float8" if name.startswith("float8") else name


def may_use_tf32(part: str) -> bool:
    """Return whether a convolution (``conv``), an ``rnn`` or a ``matmul`` may use TF32 now."""
    backends = torch.backends
    is_product = part == "matmul"
    backend = backends.cuda.matmul if is_product else backends.cudnn
    if not hasattr(backends.cuda.matmul, "fp32_precision"):
        return bool(backend.allow_tf32)
    return bool((backend if is_product else getattr(backend, part)).fp32_precision == "tf32")
