"""Sets and reads whether PyTorch may do float32 work in TF32, by whichever API is in force.

PyTorch 2.9 has a second one, ``fp32_precision``. Once a program has used it, questions to the
first, ``allow_tf32``, raise; the second always answers, for both.
"""

from __future__ import annotations

import torch

#: Side of the product that is verified.
_SIDE = 256


def set_tf32(*, on: bool) -> None:
    """Let matrix products and cuDNN use TF32, or not.

    By the first API, whose readers in a workload would raise after the second.
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
