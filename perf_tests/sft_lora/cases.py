"""Cases of fine-tuning with LoRA: a program, started by torchrun or by accelerate."""

from __future__ import annotations

from functools import partial

from pytest_dlperf import expand

PROGRAM = [
    *("train.py", "--size={size}", "--precision={precision}", "--batching={batching}"),
    *("--batch-size={batch_size_per_device}", "--iterations={iterations}"),
]
ACCELERATE = [
    *("python", "-m", "accelerate.commands.launch", "--num_machines={nodes}"),
    *("--num_processes={world_size}", "--mixed_precision=no", "--dynamo_backend=no"),
]
BATCHING = {"batching": ["packed", "padded"]}
started = {
    "sft_lora": partial(expand, suite="sft_lora", command=["python", *PROGRAM]),
    # Its ranks are its own: one node.
    "sft_lora_accelerate": partial(
        expand, suite="sft_lora_accelerate", command=[*ACCELERATE, *PROGRAM], launcher=None
    ),
}

CASES = tuple(
    case
    for suite in started.values()
    for case in (
        *suite(
            precision="bf16",
            batch_size_per_device=8,
            layout=["1n1g", "1n8g"],
            unit="tokens",
            options=BATCHING,
        ),
        *suite(
            size="tiny",
            batch_size_per_device=4,
            layout=["1n1c", "1n2c"],
            unit="tokens",
            options=BATCHING,
        ),
    )
)
