"""Autocast on the device of a trace is that of PyTorch on fake CUDA tensors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F

from pytest_dlperf.worker.cost.places import Places
from pytest_dlperf.worker.frameworks.torch.cost.fake_device import DEVICE, fake_device
from pytest_dlperf.worker.frameworks.torch.cost.gpu_autocast import (
    FLOAT32_RESULT,
    LOWER,
    REFUSED,
    WIDEST,
    gpu_autocast,
    operators_of,
    packet_of,
)

pytestmark = pytest.mark.torch
#: Operators that cast to float32, by PyTorch's documentation.
FLOAT32 = frozenset({
    "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "acos", "asin",
    "binary_cross_entropy_with_logits", "cdist", "cosh", "cosine_embedding_loss",
    "cosine_similarity", "dist", "erfinv", "exp", "expm1", "frobenius_norm", "group_norm",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10",
    "log1p", "log2", "logsumexp", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "native_layer_norm", "nll_loss", "nll_loss2d", "nuclear_norm",
    "pdist", "poisson_nll_loss", "pow", "reciprocal", "renorm", "rms_norm", "rsqrt", "sinh",
    "smooth_l1_loss", "soft_margin_loss", "softplus", "tan", "triplet_margin_loss",
    "upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "upsample_trilinear3d",
})  # fmt: skip
#: Operators whose result shows what they were cast to, on a matrix in half precision and one in
#: float32.
CALLS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": lambda x, y: x + x,
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "atan2": lambda x, y: torch.atan2(x, x),
    "bmm": lambda x, y: torch.bmm(x.unsqueeze(0), y.unsqueeze(0)),
    "cat": lambda x, y: torch.cat([x, x]),
    "cross": lambda x, y: torch.linalg.cross(x.narrow(1, 0, 3), x.narrow(1, 0, 3)),
    "cumsum": lambda x, y: torch.cumsum(x, 0),
    "einsum": lambda x, y: torch.einsum("ij,jk->ik", y, y),
    "exp": lambda x, y: x.exp(),
    "gelu": lambda x, y: F.gelu(x),
    "group_norm": lambda x, y: F.group_norm(x, 2),
    "index_put": lambda x, y: x.index_put((x.new_zeros(1, dtype=torch.long),), x),
    "layer_norm": lambda x, y: F.layer_norm(x, (8,)),
    "linear": lambda x, y: F.linear(y, y),
    "log_softmax": lambda x, y: F.log_softmax(x, -1),
    "matmul": lambda x, y: y @ y,
    "mse_loss": lambda x, y: F.mse_loss(x, x),
    "norm": lambda x, y: torch.norm(x),
    "norm of rows": lambda x, y: torch.norm(x, dim=1),
    "pad": lambda x, y: F.pad(x.unsqueeze(0), (1, 1), mode="reflect"),
    "pow": lambda x, y: x**2,
    "prod": lambda x, y: x.prod(),
    "product of rows": lambda x, y: x.prod(1),
    "rms_norm": lambda x, y: F.rms_norm(x, (8,)),
    "rsqrt": lambda x, y: x.rsqrt(),
    "scatter_add": lambda x, y: x.scatter_add(0, torch.zeros_like(x, dtype=torch.long), y),
    "sigmoid": lambda x, y: x.sigmoid(),
    "silu": lambda x, y: F.silu(x),
    "softmax": lambda x, y: F.softmax(x, -1),
    "softmax of float64": lambda x, y: F.softmax(x.double(), -1),
    "softmax in half": lambda x, y: F.softmax(x, -1, dtype=torch.float16),
    "softplus": lambda x, y: F.softplus(x),
    "stack": lambda x, y: torch.stack([x, x]),
    "sum": lambda x, y: x.sum(),
    "sum of rows": lambda x, y: x.sum(1),
    "upsample": lambda x, y: F.interpolate(x.view(1, 1, 8, 8), scale_factor=2.0),
    "vector_norm": lambda x, y: torch.linalg.vector_norm(x),
}


LIBRARY = """
with torch.autocast(y.device.type, dtype=torch.bfloat16):
    dtype = (y @ y).dtype
"""


@contextlib.contextmanager
def cuda_autocast(dtype: torch.dtype) -> Iterator[None]:
    """PyTorch's own, which needs no GPU where nothing is computed; its context asks for one."""
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", dtype)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", torch.float16)
        torch.clear_autocast_cache()


@contextlib.contextmanager
def trace_autocast(**given: Any) -> Iterator[None]:
    with (
        fake_device(Places(), as_gpu=True),
        gpu_autocast(Places(), set()),
        torch.autocast("cuda", **given),
    ):
        yield


def dtypes(device: str | torch.device, half: torch.dtype) -> dict[str, torch.dtype]:
    # Autograd takes no fake CUDA tensors in a build for CPUs
    with torch.no_grad():
        x = torch.empty(8, 8, device=device, dtype=half)
        y = torch.empty(8, 8, device=device)
        return {name: call(x, y).dtype for name, call in CALLS.items()}


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_results_have_the_dtypes_of_cuda(half: torch.dtype):
    with FakeTensorMode(allow_fallback_kernels=False), cuda_autocast(half):
        expected = dtypes("cuda", half)
    assert {expected["softmax"], expected["gelu"]} == {torch.float32, half}
    with trace_autocast(dtype=half):
        assert dtypes(DEVICE, half) == expected
    # What is left is PyTorch's own
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert F.softmax(torch.ones(2, dtype=torch.bfloat16), -1).dtype == torch.bfloat16


def test_every_operator_of_cuda_is_known():
    """One of another version of PyTorch needs a look: is it cast to float32, as the rest is?"""
    rest = set(map(packet_of, operators_of("AutocastCUDA"))) - LOWER - WIDEST - FLOAT32_RESULT
    assert rest - {REFUSED} <= FLOAT32


def test_autocast_is_in_half_precision_unless_told():
    with trace_autocast():
        y = torch.empty(8, 8, device=DEVICE)
        assert (y @ y).dtype == torch.float16
        assert torch.is_autocast_enabled()
        assert torch.get_autocast_dtype("cuda") == torch.float16
    assert torch.get_autocast_dtype("cpu") == torch.bfloat16


def test_autocast_of_the_cpu_casts_nothing_of_the_device():
    notes: set[str] = set()
    with fake_device(Places(), as_gpu=True), gpu_autocast(Places(), notes):
        y = torch.empty(8, 8, device=DEVICE)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert (y @ y).dtype == torch.float32
            with torch.autocast("cuda"), torch.autocast(device_type="cpu", enabled=False):
                assert (y @ y).dtype == torch.float16
        (note,) = notes
        assert note.startswith("torch/test_gpu_autocast.py:")
        # As of a library, which takes the device for a CPU
        library = {"torch": torch, "y": y}
        exec(compile(LIBRARY, torch.__file__, "exec"), library)
        assert library["dtype"] == torch.bfloat16


def test_weights_are_cast_once_until_autocast_ends():
    def pointers() -> set[int]:
        return {id(torch.mv(weight, y).grad_fn.next_functions[0][0]) for _ in range(2)}

    with trace_autocast():
        weight = torch.nn.Parameter(torch.empty(8, 8, device=DEVICE))
        y = torch.empty(8, device=DEVICE)
        assert len(pointers()) == 1


def test_loss_that_autocast_refuses_on_gpus_is_refused():
    with trace_autocast():
        x = torch.empty(8, device=DEVICE)
        with pytest.raises(RuntimeError, match="binary_cross_entropy is refused"):
            F.binary_cross_entropy(x, x)


def test_recurrent_layers_are_in_the_dtype_of_autocast():
    with trace_autocast(dtype=torch.bfloat16):
        layer = torch.nn.LSTM(8, 8).to(DEVICE)
        out, _ = layer(torch.empty(2, 3, 8, device=DEVICE))
        assert out.dtype == torch.bfloat16
