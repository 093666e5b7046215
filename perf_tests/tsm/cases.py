"""Cases of TSM: data only."""

from __future__ import annotations

from functools import partial

from pytest_dlperf import expand

torch = partial(
    expand, suite="tsm", framework="torch", workload=f"{__package__}.torch_train:build"
)
paddle = partial(
    expand, suite="tsm", framework="paddle", workload=f"{__package__}.paddle_train:build"
)
#: What the report exports before it trains with AMP.
PADDLE_FLAGS = {
    "FLAGS_conv_workspace_size_limit": 1000,
    "FLAGS_cudnn_exhaustive_search": True,
    "FLAGS_cudnn_batchnorm_spatial_persistent": True,
}

#: 50 epochs in both reports; training videos as PaddleVideo's docs/zh-CN/dataset/k400.md counts.
KINETICS_400 = {"samples_per_epoch": 234_619, "epochs": 50}

CASES = (
    *torch(
        precision=["fp32", "amp"],
        batch_size_per_device=16,
        layout=["1n1g", "1n8g", "4n8g"],
        **KINETICS_400,
    ),
    # The report's recipe is of 2021; these are as one would train it now.
    *torch(
        precision=["tf32", "amp", "bf16"],
        batch_size_per_device=16,
        layout=["1n1g", "1n8g"],
        options={"tuned": [True]},
        **KINETICS_400,
    ),
    *torch(
        size="tiny", precision=["fp32", "bf16"], batch_size_per_device=2, layout=["1n1c", "1n2c"]
    ),
    *torch(
        size="tiny", precision=["fp32", "amp"], batch_size_per_device=2, layout=["1n1g", "1n2g"]
    ),
    *paddle(
        precision=["fp32", "amp"],
        batch_size_per_device=16,
        layout=["1n1g", "1n8g", "4n8g"],
        options=PADDLE_FLAGS,
        **KINETICS_400,
    ),
    # The report's recipe is of 2021; these are as one would train it now.
    *paddle(
        precision=["tf32", "amp", "bf16"],
        batch_size_per_device=16,
        layout=["1n1g", "1n8g"],
        options={"tuned": [True], **PADDLE_FLAGS},
        **KINETICS_400,
    ),
    *paddle(size="tiny", batch_size_per_device=2, layout=["1n1c", "1n2c"]),
    *paddle(
        size="tiny",
        precision=["fp32", "amp"],
        batch_size_per_device=2,
        layout=["1n1g", "1n2g"],
        options=PADDLE_FLAGS,
    ),
)
