"""Cases of BERT's pre-training: data only."""

from __future__ import annotations

from functools import partial

from pytest_dlperf import expand

torch = partial(
    expand, suite="bert", framework="torch", workload=f"{__package__}.torch_train:build"
)
paddle = partial(
    expand, suite="bert", framework="paddle", workload=f"{__package__}.paddle_train:build"
)
full = {"batch_size_per_device": 96, "layout": ["1n1g", "1n8g", "4n8g"]}
tiny = {"size": "tiny", "batch_size_per_device": 16}

CASES = (
    *torch(precision=["fp32", "tf32", "bf16", "amp"], **full),
    *torch(precision=["fp32", "bf16"], layout=["1n1c", "1n2c"], **tiny),
    *torch(precision=["fp32", "amp"], layout=["1n1g", "1n2g"], **tiny),
    *paddle(precision=["fp32", "tf32", "amp"], **full),
    *paddle(layout=["1n1c", "1n2c"], **tiny),
    *paddle(precision=["fp32", "amp"], layout=["1n1g", "1n2g"], **tiny),
)
