"""Every format by its name: built in, or from an entry point."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.lookup import lookup
from pytest_dlperf.measure.logs import third_party

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_dlperf.measure.logs.declare import Format
    from pytest_dlperf.measure.logs.third_party import BrokenFormatError

#: What is counted where nobody says.
SAMPLES: Final = "samples"
#: Where two formats read as many lines of a log, the first one here has it.
BUILT_IN: Final[Mapping[str, str]] = {
    name: f"pytest_dlperf.measure.logs.formats.{name.replace('-', '_')}"
    for name in (
        "dlperf",
        "paddleclas",
        "paddleclas2020",
        "paddleclas2021",
        "paddleseg",
        "paddlevideo",
        "paddlenlp-bert",
        "paddlenlp-transformer",
        "paddlenlp-trainer",
        "plsc",
        "plsc2021",
        "plsc2022",
        "ngc-pytorch",
        "ngc-mxnet",
        "ngc-tensorflow",
        "ngc-nvlog",
        "ngc-tensorflow-bert",
        "ngc-pytorch-bert",
        "ngc-transformer",
        "mmseg",
        "mmcv-json",
        "tf2-timehistory",
        "tsm",
        "imagenet",
        "torchvision",
        "torchtitan",
        "megatron",
        "deepspeed",
        "deepspeed2021",
        "huggingface",
        "lightning",
        "mlperf",
    )
}


@cache
def formats() -> Mapping[str, Format]:
    """Return every known format; an entry point may replace a built-in one.

    One that is broken is left out, and named once on standard error.
    """
    found: dict[str, Format] = {
        name: import_module(module).FORMAT for name, module in BUILT_IN.items()
    }
    declared, broken = _third_party()
    for error in broken.values():
        third_party.warn(error)
    return {**found, **declared}


@cache
def _third_party() -> tuple[Mapping[str, Format], Mapping[str, BrokenFormatError]]:
    return third_party.load()


def named(name: str) -> Format:
    """Return a format.

    Raises ``UnknownNameError``, which lists what is known, and ``BrokenFormatError`` for one of an
    entry point that cannot be used.
    """
    _, broken = _third_party()
    if name in broken:
        raise broken[name]
    return lookup("log format", name, formats())
