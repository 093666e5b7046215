"""Autocast as on GPUs, for tensors that PyTorch takes for those of a CPU.

What autocast casts differs by the type of the device: on CUDA softmax, norms and sums are in
float32, which on a CPU stay as they are. Which operators CUDA's has, PyTorch itself knows; what it
does to them is in its documentation, https://docs.pytorch.org/docs/stable/amp.html, and in
``aten/src/ATen/autocast_mode.cpp`` of https://github.com/pytorch/pytorch.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch.utils import _pytree as trees

from pytest_dlperf.worker.cost.places import Places
from pytest_dlperf.worker.cost.replaced import replaced, wrapped
from pytest_dlperf.worker.frameworks.torch.cost.fake_device import is_on_device

_Cast = Callable[[torch.Tensor], torch.Tensor]

#: Operators that cast to the dtype of autocast.
LOWER: Final = frozenset({
    "_convolution", "_scaled_dot_product_flash_attention", "_thnn_fused_gru_cell",
    "_thnn_fused_lstm_cell", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm",
    "chain_matmul", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "convolution", "cudnn_convolution",
    "cudnn_convolution_transpose", "einsum", "gru_cell", "linalg_multi_dot", "linalg_vecdot",
    "linear", "lstm_cell", "matmul", "mm", "mv", "prelu", "rnn_relu_cell", "rnn_tanh_cell",
    "scaled_dot_product_attention",
})  # fmt: skip
#: Those that cast to the widest dtype of their arguments.
WIDEST: Final = frozenset({
    "addcdiv", "addcmul", "atan2", "bilinear", "cross", "dot", "grid_sampler", "index_put",
    "scatter_add", "tensordot", "vdot",
})  # fmt: skip
#: Those that are asked for a result in float32, and cast by themselves.
FLOAT32_RESULT: Final = frozenset({
    "cumprod", "cumsum", "linalg_matrix_norm", "linalg_vector_norm", "log_softmax", "norm",
    "prod", "softmax", "sum",
})  # fmt: skip
#: That which CUDA's refuses. All others cast to float32.
REFUSED: Final = "binary_cross_entropy"
#: A CPU's in place of cuDNN's, which only a build for CUDA has: both cast to the dtype of
#: autocast, as ``aten/src/ATen/cudnn/AutocastRNN.cpp`` of PyTorch says.
_CPU_RNN: Final = "mkldnn_rnn_layer"


@contextlib.contextmanager
def gpu_autocast(places: Places, notes: set[str]) -> Iterator[None]:
    """Let the CPU's autocast do what that of CUDA does, while open.

    What both cast to the dtype of autocast is left to PyTorch. What the program itself asks for of
    the CPU casts nothing of the device, and ``notes`` get a sentence about it.
    """
    casts = _Casts()
    on_cuda, on_cpu = operators_of("AutocastCUDA"), operators_of("AutocastCPU")
    library = torch.library.Library("aten", "IMPL", "AutocastCPU")
    before = torch.get_autocast_dtype("cpu")
    # What autocast has that names no dtype
    torch.set_autocast_dtype("cpu", torch.get_autocast_dtype("cuda"))
    try:
        with warnings.catch_warnings():
            # There is another implementation, which comes back at the end
            warnings.simplefilter("ignore")
            for name in sorted(on_cuda):
                if name not in on_cpu or packet_of(name) not in LOWER:
                    library.impl(name, _implementation(name, casts))
            for name in sorted(on_cpu - on_cuda - {_CPU_RNN}):
                library.impl(name, torch.library.fallthrough_kernel)
        with contextlib.ExitStack() as opened:
            opened.enter_context(wrapped(torch, "clear_autocast_cache", casts.cleared_with))
            for name in ("is_autocast_enabled", "get_autocast_dtype"):
                opened.enter_context(wrapped(torch, name, _answer_of_cpu))
            get_dtype = functools.partial(torch.get_autocast_dtype, "cpu")
            opened.enter_context(replaced(torch, "get_autocast_gpu_dtype", get_dtype))
            opened.enter_context(_without_autocast_of_host(places, notes))
            yield
    finally:
        library._destroy()
        torch.set_autocast_dtype("cpu", before)


@contextlib.contextmanager
def _without_autocast_of_host(places: Places, notes: set[str]) -> Iterator[None]:
    """Let autocast of the CPU do nothing where the program asks for it, while open.

    A library that asks for it may mean the device, which it takes for a CPU.
    """
    host_contexts: weakref.WeakSet[Any] = weakref.WeakSet()

    def noting(initialise: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(initialise)
        def initialised(self: Any, *args: Any, **kwargs: Any) -> None:
            initialise(self, *args, **kwargs)
            device = kwargs.get("device_type", args[0] if args else "cuda")
            if device == "cpu" and places.is_own_call():
                host_contexts.add(self)
                if self._enabled:
                    notes.add(
                        f"{places.here()} asks for autocast of the CPU, which casts nothing of a "
                        "GPU: operators count in the dtypes that they have without it"
                    )

        return initialised

    def unless_of_host(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def called(self: Any, *args: Any) -> Any:
            if self not in host_contexts:
                return method(self, *args)
            return self if method.__name__ == "__enter__" else False

        return called

    with (
        wrapped(torch.autocast, "__init__", noting),
        wrapped(torch.autocast, "__enter__", unless_of_host),
        wrapped(torch.autocast, "__exit__", unless_of_host),
    ):
        yield


def operators_of(key: str) -> set[str]:
    """Return the operators of ATen, with their overloads, that have a kernel for ``key``."""
    return {
        name.partition("::")[2]
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
    }


def packet_of(name: str) -> str:
    """Return the name of an operator without its overload."""
    return name.partition(".")[0]


class _Casts:
    """Casts to the dtype of autocast; those of weights are kept until autocast ends."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, torch.Tensor]] = {}

    def lower(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return ``tensor`` in the dtype of autocast."""
        dtype = torch.get_autocast_dtype("cpu")
        if not _is_cast(tensor) or tensor.dtype == dtype:
            return tensor
        is_weight = tensor.dtype == torch.float32 and tensor.requires_grad and tensor.is_leaf
        if not is_weight or tensor._is_view() or not torch.is_autocast_cache_enabled():
            return tensor.to(dtype)
        kept = self._kept.get(id(tensor))
        if kept is None or kept[0]() is not tensor:
            kept = (weakref.ref(tensor), tensor.to(dtype))
            self._kept[id(tensor)] = kept
        return kept[1]

    def cleared_with(self, clear: Callable[[], None]) -> Callable[[], None]:
        """Return ``clear``, which forgets these casts, too."""

        def cleared() -> None:
            self._kept.clear()
            clear()

        return cleared


def _implementation(name: str, casts: _Casts) -> Callable[..., Any]:
    packet, _, overload = name.partition(".")
    operators = getattr(torch.ops.aten, packet)
    operator = getattr(operators, overload or "default")
    if packet == REFUSED:
        return _refuse
    if packet == "norm":
        # Its overloads with a dtype are others
        return _with_dtype(
            getattr(operators, f"{overload}_dtype".replace("Scalar_", "ScalarOpt_"))
        )
    if packet in FLOAT32_RESULT:
        return _with_dtype(operator)
    if packet in WIDEST:
        return _casting(operator, lambda values: _widest(values, casts))
    cast = casts.lower if packet in LOWER else _float32
    return _casting(operator, lambda _: cast)


def _casting(operator: Any, choose: Callable[[Any], _Cast]) -> Callable[..., Any]:
    """Return ``operator`` without autocast, on arguments that are cast as ``choose`` says."""

    def called(*args: Any, **kwargs: Any) -> Any:
        with torch._C._DisableAutocast():
            cast = choose((args, kwargs))
            args, kwargs = trees.tree_map_only(torch.Tensor, cast, (args, kwargs))
            return operator(*args, **kwargs)

    return called


def _with_dtype(operator: Any) -> Callable[..., Any]:
    """Return ``operator`` without autocast, for a result in float32 unless another is asked for.

    Of what is not cast the result has its own dtype.
    """
    names = [argument.name for argument in operator._schema.arguments]

    def called(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if given.get("dtype") is None:
            is_norm = operator._schema.name == "aten::norm"
            if _is_cast(args[0]):
                given["dtype"] = torch.float32
            elif is_norm:
                given["dtype"] = args[0].dtype
        positional = [given.pop(a.name) for a in operator._schema.arguments
                      if not a.kwarg_only and a.name in given]  # fmt: skip
        with torch._C._DisableAutocast():
            return operator(*positional, **given)

    return called


def _widest(values: Any, casts: _Casts) -> _Cast:
    tensors = [leaf for leaf in trees.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
    is_wide = any(_is_cast(tensor) and tensor.dtype == torch.float32 for tensor in tensors)
    return _float32 if is_wide else casts.lower


def _is_cast(tensor: torch.Tensor) -> bool:
    """Return whether autocast casts ``tensor``: numbers on the device, and not in float64."""
    local = getattr(tensor, "_local_tensor", tensor)
    return tensor.is_floating_point() and tensor.dtype != torch.float64 and is_on_device(local)


def _float32(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float32) if _is_cast(tensor) else tensor


def _refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError(
        "binary_cross_entropy is refused by autocast on GPUs; use "
        "binary_cross_entropy_with_logits, or disable autocast for it"
    )


def _answer_of_cpu(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Let who asks about a GPU's autocast hear of the CPU's, which stands for it."""

    @functools.wraps(ask)
    def asked(device: Any = "cuda") -> Any:
        return ask("cpu" if str(device).startswith("cuda") else device)

    return asked
