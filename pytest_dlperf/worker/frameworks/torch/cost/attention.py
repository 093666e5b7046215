"""Attention as GPUs have it: one fused operator, where the CPU's choice would be several."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

import torch
from torch.nn import functional

from pytest_dlperf.worker.cost.replaced import wrapped
from pytest_dlperf.worker.frameworks.torch.cost.fake_device import is_on_device

#: Widest head of FlashAttention, https://github.com/Dao-AILab/flash-attention.
_WIDEST_HEAD: Final = 256
_HALF: Final = (torch.float16, torch.bfloat16)
#: Of ``scaled_dot_product_attention``, with their defaults.
_ARGUMENTS: Final[Mapping[str, Any]] = {
    "query": inspect.Parameter.empty,
    "key": inspect.Parameter.empty,
    "value": inspect.Parameter.empty,
    "attn_mask": None,
    "dropout_p": 0.0,
    "is_causal": False,
    "scale": None,
    "enable_gqa": False,
}


@contextlib.contextmanager
def fused_attention() -> Iterator[None]:
    """Let ``scaled_dot_product_attention`` be one operator on the device of the trace.

    FlashAttention in half precision without a mask, else the memory-efficient one, as
    ``torch.nn.attention.SDPBackend`` names them; where the program allows neither, or gives what
    they do not take, what PyTorch itself does.
    """

    def wrap(composite: Any) -> Any:
        signature = inspect.Signature(
            [
                inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
                for name, default in _ARGUMENTS.items()
            ]
        )

        # Context parallelism replaces it by its name
        @functools.wraps(composite)
        def attention(*args: Any, **kwargs: Any) -> torch.Tensor:
            if torch.compiler.is_compiling():
                return composite(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            fused = _fused(given.arguments)
            return composite(*args, **kwargs) if fused is None else fused

        return attention

    with wrapped(functional, "scaled_dot_product_attention", wrap):
        yield


def _is_batch(parts: list[Any]) -> bool:
    """Return whether ``parts`` are of the device, and have a batch and heads."""
    local = getattr(parts[0], "_local_tensor", parts[0])
    return is_on_device(local) and all(part.dim() == 4 for part in parts)


def _fused(given: Mapping[str, Any]) -> torch.Tensor | None:
    """Return what a fused operator returns; None if none takes what is ``given``."""
    parts = [given[name] for name in ("query", "key", "value")]
    if not _is_batch(parts):
        return None
    query, key, value = map(_cast, parts)
    mask, scale = given["attn_mask"], given["scale"]
    dropout_p, is_causal = given["dropout_p"], given["is_causal"]
    if _takes_flash([query, key, value], mask):
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        flashed: torch.Tensor = flash(query, key, value, dropout_p, is_causal, scale=scale)[0]
        return flashed
    if not torch.backends.cuda.mem_efficient_sdp_enabled() or query.dtype == torch.float64:
        return None
    shared = query.shape[1] // key.shape[1]
    if shared > 1:
        key, value = (part.repeat_interleave(shared, dim=1) for part in (key, value))
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.where(mask, 0.0, float("-inf"))
        mask = mask.to(query.dtype).expand(*query.shape[:3], key.shape[2])
    needs_gradient = any(part.requires_grad for part in (query, key, value))
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    mixed: torch.Tensor = efficient(
        query, key, value, mask, needs_gradient, dropout_p, is_causal, scale=scale
    )[0]
    return mixed


def _cast(tensor: torch.Tensor) -> torch.Tensor:
    """Return ``tensor`` as autocast gives it to attention."""
    if torch.is_autocast_enabled("cpu") and tensor.dtype in {torch.float32, *_HALF}:
        return tensor.to(torch.get_autocast_dtype("cpu"))
    return tensor


def _takes_flash(parts: list[torch.Tensor], mask: torch.Tensor | None) -> bool:
    width = parts[0].shape[-1]
    return (
        torch.backends.cuda.flash_sdp_enabled()
        and mask is None
        and all(part.dtype in _HALF for part in parts)
        and width <= _WIDEST_HEAD
        and width % 8 == 0
        and parts[2].shape[-1] == width
    )
