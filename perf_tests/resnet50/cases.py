"""Cases of ResNet-50 V1.5: data only."""

from __future__ import annotations

from functools import partial

from pytest_dlperf import expand

torch = partial(
    expand,
    suite="resnet50",
    framework="torch",
    workload=f"{__package__}.torch_train:build",
    unit="images",
)
paddle = partial(
    expand,
    suite="resnet50",
    framework="paddle",
    workload=f"{__package__}.paddle_train:build",
    unit="images",
)
tensorflow = partial(
    expand,
    suite="resnet50",
    framework="tensorflow",
    workload=f"{__package__}.tf_horovod_train:build",
    unit="images",
)
jax = partial(
    expand,
    suite="resnet50",
    framework="jax",
    workload=f"{__package__}.jax_train:build",
    unit="images",
)

CASES = (
    *torch(precision=["fp32", "amp"], batch_size_per_device=256, layout=["1n1g", "1n8g", "4n8g"]),
    # The report's recipe is a script of 2021; these are as one would train it now.
    *torch(
        precision=["tf32", "amp", "bf16"],
        batch_size_per_device=256,
        layout=["1n1g", "1n8g"],
        options={"tuned": [True], "compile": [False, True]},
    ),
    *torch(
        precision="bf16",
        batch_size_per_device=256,
        # Not under DistributedDataParallel: PyTorch may leave the graphs out there (issue 139207)
        layout="1n1g",
        options={"tuned": [True], "compile": [True], "cuda_graphs": [True]},
    ),
    *torch(
        size="tiny", precision=["fp32", "bf16"], batch_size_per_device=32, layout=["1n1c", "1n2c"]
    ),
    *torch(
        size="tiny", precision=["fp32", "amp"], batch_size_per_device=32, layout=["1n1g", "1n2g"]
    ),
    *paddle(precision=["fp32", "amp"], batch_size_per_device=256, layout=["1n1g", "1n8g", "4n8g"]),
    # The report's recipe is of 2021; these are as one would train it now.
    *paddle(
        precision=["tf32", "amp", "bf16"],
        batch_size_per_device=256,
        layout=["1n1g", "1n8g"],
        options={"tuned": [True], "FLAGS_cudnn_exhaustive_search": True},
    ),
    *paddle(size="tiny", batch_size_per_device=32, layout=["1n1c", "1n2c"]),
    *paddle(
        size="tiny", precision=["fp32", "amp"], batch_size_per_device=32, layout=["1n1g", "1n2g"]
    ),
    *tensorflow(
        precision=["fp32", "amp"],
        batch_size_per_device=256,
        layout=["1n1g", "1n8g", "4n8g"],
        protocol="ngc-tf",
        options={"xla": True, "inter_op_parallelism_threads": 4},
    ),
    *tensorflow(
        size="tiny", precision=["fp32", "bf16"], batch_size_per_device=32, layout=["1n1c", "1n2c"]
    ),
    *tensorflow(
        size="tiny",
        precision=["fp32", "amp"],
        batch_size_per_device=32,
        layout=["1n1g", "1n2g"],
        options={"xla": True, "inter_op_parallelism_threads": 4},
    ),
    *jax(
        precision=["tf32", "bf16"],
        batch_size_per_device=256,
        layout=["1n1g", "1n8g", "4n8g"],
    ),
    *jax(precision="bf16", batch_size_per_device=256, layout="1n8g", devices_per_process=8),
    *jax(
        size="tiny", precision=["fp32", "bf16"], batch_size_per_device=32, layout=["1n1c", "1n2c"]
    ),
    *jax(
        size="tiny",
        batch_size_per_device=32,
        layout="1n2c",
        devices_per_process=2,
        speedup=None,
    ),
    *jax(
        size="tiny", precision=["fp32", "bf16"], batch_size_per_device=32, layout=["1n1g", "1n2g"]
    ),
)
