"""Attention as GPUs have it: one fused operator, where the CPU's choice would be several."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch.nn import functional

from pytest_dlperf.worker.frameworks.torch.cost.fake_device import is_on_device
from pytest_dlperf.worker.frameworks.torch.cost.replaced import wrapped

#: Widest head of FlashAttention, https://github.com/Dao-AILab/flash-attention.
_WIDEST_HEAD: Final = 256
_HALF: Final = (torch.float16, torch.bfloat16)


@contextlib.contextmanager
def fused_attention() -> Iterator[None]:
    """Let ``scaled_dot_product_attention`` be one operator on the device of the trace.

    FlashAttention in half precision without a mask, else the memory-efficient one, as
    ``torch.nn.attention.SDPBackend`` names them; where the program allows neither, or gives what
    they do not take, what PyTorch itself does.
    """

    def wrap(composite: Any) -> Any:
        def attention(
            query: torch.Tensor,
            key: torch.Tensor,
            value: torch.Tensor,
            attn_mask: torch.Tensor | None = None,
            dropout_p: float = 0.0,
            is_causal: bool = False,
            scale: float | None = None,
            enable_gqa: bool = False,
        ) -> torch.Tensor:
            parts = [_cast(part) for part in (query, key, value)]
            is_long = all(part.dim() == 4 for part in parts)
            if not is_long or torch.compiler.is_compiling() or not is_on_device(_local(query)):
                return composite(
                    query, key, value, attn_mask, dropout_p, is_causal,
                    scale=scale, enable_gqa=enable_gqa,
                )  # fmt: skip
            if _takes_flash(parts, attn_mask):
                flash = torch.ops.aten._scaled_dot_product_flash_attention
                return flash(*parts, dropout_p, is_causal, scale=scale)[0]
            if torch.backends.cuda.mem_efficient_sdp_enabled() and parts[0].dtype != torch.float64:
                return _efficient(parts, attn_mask, dropout_p, is_causal, scale)
            return composite(
                query, key, value, attn_mask, dropout_p, is_causal,
                scale=scale, enable_gqa=enable_gqa,
            )  # fmt: skip

        return attention

    with wrapped(functional, "scaled_dot_product_attention", wrap):
        yield


def _local(tensor: Any) -> torch.Tensor:
    local: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return local


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


def _efficient(
    parts: list[torch.Tensor],
    mask: torch.Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> torch.Tensor:
    query, key, value = parts
    shared = query.shape[1] // key.shape[1]
    if shared > 1:
        key, value = (part.repeat_interleave(shared, dim=1) for part in (key, value))
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.where(mask, 0.0, float("-inf")).to(query.dtype)
        mask = mask.to(query.dtype).expand(*query.shape[:3], key.shape[2])
    needs_gradient = any(part.requires_grad for part in parts)
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    mixed: torch.Tensor = efficient(
        query, key, value, mask, needs_gradient, dropout_p, is_causal, scale=scale
    )[0]
    return mixed
