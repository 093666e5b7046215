"""Cases of Llama 3: data only."""

from __future__ import annotations

from functools import partial

from pytest_dlperf import expand

torch = partial(
    expand,
    suite="llama",
    framework="torch",
    workload=f"{__package__}.torch_train:build",
    unit="tokens",
)
tiny = partial(torch, size="tiny", batch_size_per_device=4)
jax = partial(
    expand,
    suite="llama",
    framework="jax",
    workload=f"{__package__}.jax_train:build",
    unit="tokens",
)
jax_tiny = partial(jax, size="tiny", batch_size_per_device=4)
paddle = partial(
    expand,
    suite="llama",
    framework="paddle",
    workload=f"{__package__}.paddle_train:build",
    unit="tokens",
    parallel="ddp",
)

CASES = (
    *torch(
        precision=["fp32", "bf16"],
        batch_size_per_device=8,
        layout=["1n1g", "1n8g"],
        parallel=["ddp", "fsdp2"],
        options={"model": ["350m"], "compile": [False, True]},
    ),
    *torch(
        precision="bf16",
        batch_size_per_device=8,
        layout=["1n1g", "1n8g"],
        parallel="fsdp2",
        options={"model": ["350m"], "compile": [True], "recompute": [True]},
    ),
    # As many tokens in a batch, in sequences of another length: attention's share changes.
    *(
        case
        for sequence in (512, 8192)
        for case in torch(
            precision="bf16",
            batch_size_per_device=8 * 2048 // sequence,
            layout=["1n1g", "1n8g"],
            parallel="ddp",
            options={"model": ["350m"], "sequence": [sequence], "compile": [True]},
        )
    ),
    # On one device the model does not fit, so that there is no speedup.
    *torch(
        precision="bf16",
        batch_size_per_device=1,
        layout=["1n8g", "2n8g"],
        parallel=["fsdp2", "fsdp2-tp2"],
        options={"model": ["8b"], "compile": [False, True], "recompute": [False, True]},
        speedup=None,
    ),
    *torch(
        precision="fp8",
        batch_size_per_device=8,
        layout=["1n1g", "1n8g"],
        parallel=["ddp", "fsdp2"],
        options={"model": ["350m"], "compile": [True]},
    ),
    *torch(
        precision="fp8",
        batch_size_per_device=1,
        layout=["1n8g", "2n8g"],
        parallel="fsdp2",
        options={"model": ["8b"], "compile": [True], "recompute": [True]},
        speedup=None,
    ),
    *tiny(precision="fp8", layout=["1n1c", "1n2c", "1n1g"], parallel="ddp"),
    *tiny(precision=["fp32", "bf16"], layout=["1n1c", "1n2c"], parallel="ddp"),
    *tiny(precision=["fp32", "bf16"], layout=["1n1g", "1n2g"], parallel="ddp"),
    *tiny(layout=["1n2c", "1n2g"], parallel=["fsdp2", "tp2"], speedup=None),
    *tiny(layout=["1n4g"], parallel="fsdp2-tp2", speedup=None),
    *tiny(
        layout=["1n1c", "1n2c"],
        parallel="ddp",
        options={"sequence": [64], "compile": [False], "recompute": [True]},
    ),
    *jax(
        precision="bf16",
        batch_size_per_device=8,
        layout=["1n1g", "1n8g"],
        parallel=["ddp", "fsdp2"],
        options={"model": ["350m"]},
    ),
    *jax(
        precision="bf16",
        batch_size_per_device=1,
        layout=["1n8g", "2n8g"],
        parallel=["fsdp2", "fsdp2-tp2"],
        options={"model": ["8b"], "recompute": [False, True]},
        devices_per_process=8,
        speedup=None,
    ),
    *jax_tiny(precision=["fp32", "bf16"], layout=["1n1c", "1n2c"], parallel="ddp"),
    *jax_tiny(layout="1n2c", parallel=["fsdp2", "tp2"], devices_per_process=2, speedup=None),
    *jax_tiny(layout=["1n1g", "1n2g"], parallel="ddp"),
    *paddle(
        precision=["fp32", "bf16"],
        batch_size_per_device=8,
        layout=["1n1g", "1n8g"],
        options={"model": ["350m"], "recompute": [False, True]},
    ),
    *paddle(size="tiny", batch_size_per_device=4, layout=["1n1c", "1n2c", "1n1g", "1n2g"]),
    *paddle(size="tiny", batch_size_per_device=4, layout="1n2c", options={"recompute": [True]}),
)
