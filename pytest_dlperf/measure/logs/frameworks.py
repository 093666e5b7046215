"""Which framework writes which format: a log says so by its look alone."""

from __future__ import annotations

from typing import Final

#: Formats that several frameworks write are left out: insightface's, MLPerf's, our own.
_FRAMEWORKS: Final = {
    "deepspeed": "torch",
    "deepspeed2021": "torch",
    "huggingface": "torch",
    "imagenet": "torch",
    "lightning": "torch",
    "megatron": "torch",
    "mmcv-json": "torch",
    "mmseg": "torch",
    "ngc-mxnet": "mxnet",
    "ngc-nvlog": "tensorflow",
    "ngc-pytorch": "torch",
    "ngc-pytorch-bert": "torch",
    "ngc-tensorflow": "tensorflow",
    "ngc-tensorflow-bert": "tensorflow",
    "ngc-transformer": "torch",
    "paddleclas": "paddle",
    "paddleclas2020": "paddle",
    "paddleclas2021": "paddle",
    "paddlenlp-bert": "paddle",
    "paddlenlp-trainer": "paddle",
    "paddlenlp-transformer": "paddle",
    "paddleseg": "paddle",
    "paddlevideo": "paddle",
    "plsc": "paddle",
    "plsc2022": "paddle",
    "tf2-timehistory": "tensorflow",
    "torchtitan": "torch",
    "torchvision": "torch",
    "tsm": "torch",
}


def framework_of(name: str | None) -> str | None:
    """Return the framework whose programs write the format ``name``; None where none is sure."""
    return _FRAMEWORKS.get(name or "")
