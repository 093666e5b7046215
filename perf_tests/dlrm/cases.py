"""Cases of DLRM: data only."""

from __future__ import annotations

from functools import partial

from pytest_dlperf import expand

torch = partial(
    expand, suite="dlrm", framework="torch", workload=f"{__package__}.torch_train:build"
)
MODELS = ["dcnv2", "wide_deep"]

CASES = (
    # Tables cut to what one device holds, so that there is a speedup.
    *torch(
        precision=["fp32", "tf32", "bf16"],
        batch_size_per_device=8192,
        layout=["1n1g", "1n8g"],
        options={"model": MODELS, "rows_max": [2_000_000]},
    ),
    # All rows: 105 GB of parameters, and as much of Adagrad's sums.
    *torch(
        precision=["fp32", "tf32", "bf16"],
        batch_size_per_device=8192,
        layout=["1n8g", "2n8g"],
        options={"model": MODELS},
        speedup=None,
    ),
    *torch(
        size="tiny",
        batch_size_per_device=64,
        layout=["1n1c", "1n2c"],
        options={"model": MODELS},
    ),
    *torch(
        size="tiny",
        batch_size_per_device=64,
        layout=["1n1g", "1n2g"],
        options={"model": MODELS},
    ),
)
