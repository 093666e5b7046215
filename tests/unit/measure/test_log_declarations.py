"""What each format declares of its numbers: scope, averaging, unit, counter, first step."""

from __future__ import annotations

from dataclasses import fields

from pytest_dlperf.measure.logs import registry
from pytest_dlperf.measure.logs.declare import Format


def declared(fmt: Format) -> str:
    """Return what a format says its numbers mean: fields that are plain values, where they say
    more than the default, without words for a sentence.
    """
    values = {field.name: (getattr(fmt, field.name), field.default) for field in fields(fmt)}
    meaning = {
        name: value
        for name, (value, default) in values.items()
        if isinstance(value, str | bool | int | float) and value != default
        if name not in {"name", "by_shape", "leaves_out", "no_time"}
    }
    return " ".join(f"{name}={value}" for name, value in meaning.items())


def test_formats_take_a_log_in_this_order_and_their_numbers_mean_this() -> None:
    expected = {
        "dlperf": "scope=device averaging=window unit=samples counter=global",
        "paddleclas": (
            "scope=device averaging=running unit=images framework=paddle "
            "running_since=5 carries_over=True cost_resolution=1e-05"
        ),
        "paddleclas2020": (
            "scope=device averaging=running unit=images framework=paddle batch_of=global"
        ),
        "paddleclas2021": (
            "scope=device averaging=running unit=images framework=paddle "
            "running_since=10 batch_of=global"
        ),
        "paddleseg": (
            "scope=device averaging=window unit=images framework=paddle "
            "first_step=1 counter=global"
        ),
        "paddlevideo": "scope=device averaging=iteration unit=clips framework=paddle",
        "paddlenlp-bert": (
            "scope=device averaging=window unit=sequences framework=paddle "
            "first_step=1 counter=global"
        ),
        "paddlenlp-transformer": (
            "scope=device averaging=window unit=tokens framework=paddle counter=global"
        ),
        "paddlenlp-trainer": (
            "scope=process averaging=window unit=sequences framework=paddle "
            "first_step=1 counter=global"
        ),
        "plsc": "scope=global averaging=window unit=images framework=paddle",
        "plsc2021": ("scope=global averaging=window unit=images first_step=1 counter=global"),
        "plsc2022": "scope=global averaging=window unit=images framework=paddle",
        "ngc-pytorch": (
            "scope=global averaging=iteration unit=images framework=torch first_step=1"
        ),
        "ngc-mxnet": ("scope=global averaging=window unit=images framework=mxnet batch_of=global"),
        "ngc-tensorflow": (
            "scope=global averaging=window unit=images framework=tensorflow warmup_removed=True"
        ),
        "ngc-nvlog": (
            "scope=global averaging=window unit=images framework=tensorflow "
            "counter=global several_lines=True warmup_removed=True"
        ),
        "ngc-tensorflow-bert": (
            "scope=global averaging=iteration unit=sequences "
            "framework=tensorflow first_step=1 counter=stalls"
        ),
        "ngc-pytorch-bert": (
            "scope=global averaging=whole unit=sequences framework=torch "
            "first_step=1 counter=global"
        ),
        "ngc-transformer": (
            "scope=global averaging=window unit=tokens framework=torch first_step=1 counter=global"
        ),
        "ngc-gnn": (
            "scope=process averaging=iteration unit=samples framework=torch counter=global"
        ),
        "mmseg": ("scope=process averaging=window unit=images framework=torch first_step=1"),
        "mmcv-json": (
            "scope=process averaging=window unit=images framework=torch "
            "first_step=1 counter=either"
        ),
        "tf2-timehistory": (
            "scope=global averaging=window unit=images framework=tensorflow "
            "first_step=1 counter=global batch_of=global"
        ),
        "tf-cnn-benchmarks": (
            "scope=global averaging=running unit=images "
            "framework=tensorflow first_step=1 running_since=1 "
            "counter=global"
        ),
        "tsm": (
            "scope=process averaging=running unit=clips framework=torch "
            "resolution=0.001 batch_of=global"
        ),
        "imagenet": (
            "scope=process averaging=running unit=images framework=torch "
            "resolution=0.001 batch_of=node"
        ),
        "torchvision": "scope=process averaging=window unit=images framework=torch",
        "timm": "scope=global averaging=running unit=images framework=torch",
        "torchtitan": (
            "scope=device averaging=window unit=tokens framework=torch first_step=1 counter=global"
        ),
        "verl": (
            "scope=device averaging=iteration unit=tokens framework=torch "
            "first_step=1 counter=global"
        ),
        "deepspeed-chat": (
            "scope=global averaging=iteration unit=samples framework=torch several_lines=True"
        ),
        "ms-swift": (
            "scope=process averaging=running unit=samples framework=torch "
            "first_step=1 running_since=1 counter=global batch_of=global"
        ),
        "llamafactory": (
            "scope=process averaging=running unit=samples framework=torch "
            "first_step=1 running_since=1 counter=global "
            "clock_resolution=1.0 batch_of=global"
        ),
        "nanochat": (
            "scope=global averaging=iteration unit=tokens framework=torch counter=global"
        ),
        "nanogpt": (
            "scope=process averaging=iteration unit=tokens framework=torch "
            "counter=global batch_of=global"
        ),
        "modded-nanogpt": (
            "scope=process averaging=window unit=samples framework=torch "
            "first_step=1 counter=global cumulative=True batch_of=global"
        ),
        "llm.c": (
            "scope=global averaging=iteration unit=tokens first_step=1 "
            "counter=global rate_keeps=0.95"
        ),
        "maxtext": ("scope=device averaging=iteration unit=tokens framework=jax counter=global"),
        "nemo": ("scope=global averaging=iteration unit=samples framework=torch counter=global"),
        "olmo": (
            "scope=device averaging=window unit=tokens framework=torch "
            "first_step=1 counter=global several_lines=True"
        ),
        "composer": (
            "scope=global averaging=window unit=tokens framework=torch "
            "first_step=1 several_lines=True"
        ),
        "composer-samples": (
            "scope=global averaging=window unit=samples framework=torch "
            "first_step=1 several_lines=True"
        ),
        "composer-time": (
            "scope=global averaging=window unit=tokens framework=torch "
            "counter=global several_lines=True"
        ),
        "composer-time-samples": (
            "scope=global averaging=window unit=samples framework=torch "
            "counter=global several_lines=True"
        ),
        "litgpt": (
            "scope=process averaging=iteration unit=samples framework=torch "
            "first_step=1 counter=global"
        ),
        "internevo": (
            "scope=device averaging=iteration unit=tokens framework=torch counter=global"
        ),
        "fairseq": (
            "scope=global averaging=window unit=tokens framework=torch first_step=1 counter=global"
        ),
        "megatron": (
            "scope=global averaging=window unit=sequences framework=torch "
            "first_step=1 counter=global"
        ),
        "deepspeed": (
            "scope=global averaging=iteration unit=samples framework=torch "
            "first_step=1 counter=global"
        ),
        "deepspeed2021": (
            "scope=global averaging=running unit=samples framework=torch "
            "first_step=1 running_since=3 counter=global"
        ),
        "huggingface": (
            "scope=process averaging=running unit=samples framework=torch "
            "first_step=1 running_since=1 counter=global bar=True "
            "last_resort=True zero_is_lost=True"
        ),
        "lightning": (
            "scope=process averaging=running unit=samples framework=torch "
            "first_step=1 running_since=1 bar=True"
        ),
        "tqdm": (
            "scope=process averaging=running unit=samples first_step=1 "
            "running_since=1 bar=True last_resort=True"
        ),
        "tqdm-samples": (
            "scope=process averaging=running unit=samples first_step=1 "
            "running_since=1 steps_are_work=True bar=True last_resort=True"
        ),
        "tqdm-tokens": (
            "scope=process averaging=running unit=tokens first_step=1 "
            "running_since=1 steps_are_work=True bar=True last_resort=True"
        ),
        "mlperf": ("scope=global averaging=window unit=samples first_step=1 counter=global"),
        "detectron2": (
            "scope=process averaging=window unit=images framework=torch "
            "counter=global batch_of=global"
        ),
        "detectron2-2019": (
            "scope=process averaging=running unit=images framework=torch "
            "resolution=0.0001 running_since=2 counter=global "
            "several_lines=True batch_of=global"
        ),
        "ultralytics": (
            "scope=process averaging=running unit=images framework=torch "
            "first_step=1 running_since=1 batch_of=global bar=True"
        ),
        "keras": (
            "scope=process averaging=running unit=samples resolution=0.001 "
            "first_step=1 running_since=1 batch_of=global"
        ),
        "keras-seconds": (
            "scope=process averaging=running unit=samples first_step=1 "
            "running_since=1 clock_resolution=1.0 batch_of=global"
        ),
        "tf-slim": (
            "scope=process averaging=iteration unit=images "
            "framework=tensorflow first_step=1 counter=global"
        ),
        "ijepa": ("scope=process averaging=running unit=images framework=torch resolution=0.0001"),
        "vjepa": ("scope=process averaging=running unit=clips framework=torch resolution=0.0001"),
        "deep-text-recognition": (
            "scope=process averaging=window unit=images framework=torch "
            "first_step=1 counter=global cumulative=True batch_of=global"
        ),
        "dinov2": "scope=process averaging=window unit=images framework=torch counter=global",
        "open-clip": (
            "scope=global averaging=iteration unit=samples framework=torch first_step=1"
        ),
        "informer": (
            "scope=process averaging=window unit=samples framework=torch "
            "first_step=1 several_lines=True spans_epochs=True "
            "batch_of=global"
        ),
        "icefall": ("scope=global averaging=window unit=iterations framework=torch by_clock=True"),
    }
    assert [*registry.formats()] == [*expected]
    assert {name: declared(fmt) for name, fmt in registry.formats().items()} == expected
