"""Cases of Transformer big: data only."""

from __future__ import annotations

from functools import partial

from pytest_dlperf import expand

torch = partial(
    expand,
    suite="transformer",
    framework="torch",
    workload=f"{__package__}.torch_train:build",
    unit="tokens",
)
paddle = partial(
    expand,
    suite="transformer",
    framework="paddle",
    workload=f"{__package__}.paddle_train:build",
    unit="tokens",
)
LAYOUTS = ["1n1g", "1n8g", "4n8g"]

#: The batch is in tokens of the target, as the reports' is.
CASES = (
    *torch(precision=["fp32", "tf32", "amp"], batch_size_per_device=5120, layout=LAYOUTS),
    *paddle(
        precision=["fp32", "tf32", "amp", "pure_fp16"], batch_size_per_device=5120, layout=LAYOUTS
    ),
    # With 32 GPUs the reports measured fp32 at half the batch, so that one GPU has it too.
    *torch(batch_size_per_device=2560, layout=["1n1g", "4n8g"]),
    *paddle(batch_size_per_device=2560, layout=["1n1g", "4n8g"]),
    *torch(
        size="tiny", precision=["fp32", "bf16"], batch_size_per_device=128, layout=["1n1c", "1n2c"]
    ),
    *torch(
        size="tiny", precision=["fp32", "amp"], batch_size_per_device=128, layout=["1n1g", "1n2g"]
    ),
    *paddle(size="tiny", batch_size_per_device=128, layout=["1n1c", "1n2c"]),
    *paddle(
        size="tiny", precision=["fp32", "amp"], batch_size_per_device=128, layout=["1n1g", "1n2g"]
    ),
)
