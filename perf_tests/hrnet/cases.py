"""Cases of HRNet: data only."""

from __future__ import annotations

from functools import partial

from pytest_dlperf import expand

torch = partial(
    expand,
    suite="hrnet",
    framework="torch",
    workload=f"{__package__}.torch_train:build",
)
paddle = partial(
    expand,
    suite="hrnet",
    framework="paddle",
    workload=f"{__package__}.paddle_train:build",
)

CASES = (
    *torch(precision=["fp32", "amp"], batch_size_per_device=8, layout=["1n1g", "1n8g", "4n8g"]),
    *torch(
        size="tiny", precision=["fp32", "bf16"], batch_size_per_device=2, layout=["1n1c", "1n2c"]
    ),
    *torch(
        size="tiny", precision=["fp32", "amp"], batch_size_per_device=2, layout=["1n1g", "1n2g"]
    ),
    *paddle(
        # pure_fp16 is AMP level O2, as in the report's newest logs.
        precision=["fp32", "amp", "pure_fp16"],
        batch_size_per_device=8,
        layout=["1n1g", "1n8g", "4n8g"],
    ),
    *paddle(size="tiny", batch_size_per_device=2, layout=["1n1c", "1n2c"]),
    *paddle(
        size="tiny", precision=["fp32", "amp"], batch_size_per_device=2, layout=["1n1g", "1n2g"]
    ),
)
