"""Cases of ArcFace R50: data only."""

from __future__ import annotations

from functools import partial

from pytest_dlperf import expand

torch = partial(
    expand, suite="arcface", framework="torch", workload=f"{__package__}.torch_train:build"
)
paddle = partial(
    expand, suite="arcface", framework="paddle", workload=f"{__package__}.paddle_train:build"
)

CASES = (
    *torch(
        precision=["fp32", "amp"],
        batch_size_per_device=128,
        layout=["1n1g", "1n4g", "1n8g", "2n8g", "4n8g"],
    ),
    # The report's recipe is of 2021; these are as one would train it now.
    *torch(
        precision=["tf32", "amp", "bf16"],
        batch_size_per_device=128,
        layout=["1n1g", "1n8g"],
        options={"tuned": [True]},
    ),
    *torch(
        size="tiny", precision=["fp32", "bf16"], batch_size_per_device=16, layout=["1n1c", "1n2c"]
    ),
    *torch(
        size="tiny", precision=["fp32", "amp"], batch_size_per_device=16, layout=["1n1g", "1n2g"]
    ),
    *paddle(batch_size_per_device=128, layout=["1n1g", "1n4g", "1n8g", "2n8g", "4n8g"]),
    # The report's recipe is of 2021; these are as one would train it now.
    *paddle(
        precision=["tf32", "amp", "bf16"],
        batch_size_per_device=128,
        layout=["1n1g", "1n8g"],
        options={"tuned": [True], "FLAGS_cudnn_exhaustive_search": True},
    ),
    *paddle(size="tiny", batch_size_per_device=16, layout=["1n1c", "1n2c"]),
    *paddle(
        size="tiny", precision=["fp32", "amp"], batch_size_per_device=16, layout=["1n1g", "1n2g"]
    ),
)
