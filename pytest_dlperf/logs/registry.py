"""Every format by its name: built in, from an entry point, or a user's own pattern."""

from __future__ import annotations

import math
import re
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.lookup import lookup
from pytest_dlperf.logs.declare import NOT_FINITE, NUMBER, Format, Reading

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_dlperf.core.log_pattern import LogPattern

#: What is counted where nobody says.
SAMPLES: Final = "samples"
ENTRY_POINTS: Final = "pytest_dlperf.log_formats"
#: Where two formats read as many lines of a log, the first one here has it.
BUILT_IN: Final[Mapping[str, str]] = {
    name: f"pytest_dlperf.logs.formats.{name.replace('-', '_')}"
    for name in (
        "dlperf",
        "paddleclas",
        "paddleclas2020",
        "paddleseg",
        "paddlevideo",
        "paddlenlp-bert",
        "paddlenlp-transformer",
        "plsc",
        "ngc-pytorch",
        "ngc-mxnet",
        "ngc-tensorflow",
        "ngc-nvlog",
        "ngc-tensorflow-bert",
        "ngc-pytorch-bert",
        "ngc-transformer",
        "mmseg",
        "tf2-timehistory",
        "tsm",
        "imagenet",
        "torchtitan",
        "megatron",
        "deepspeed",
        "huggingface",
        "lightning",
        "mlperf",
    )
}


@cache
def formats() -> Mapping[str, Format]:
    """Return every known format; an entry point may replace a built-in one."""
    found: dict[str, Format] = {
        name: import_module(module).FORMAT for name, module in BUILT_IN.items()
    }
    for entry in entry_points(group=ENTRY_POINTS):
        declared = entry.load()
        if not isinstance(declared, Format):
            raise UsageError(f"entry point {entry.value}: {entry.name} is no log format")
        found[entry.name] = declared
    return found


def named(name: str) -> Format:
    """Return a format; raise ``UnknownNameError`` that lists what is known."""
    return lookup("log format", name, formats())


def of_pattern(declared: LogPattern) -> Format:
    """Return the format that a user's pattern declares."""
    compiled = re.compile(declared.regex.encode())
    groups = set(compiled.groupindex)
    number = re.compile(NUMBER)
    not_finite = re.compile(rb"(?<![A-Za-z0-9_])" + NOT_FINITE).search

    def value(match: re.Match[bytes], group: str) -> float | None:
        text = match[group] if group in groups else None
        found = number.fullmatch(text) if text is not None else None
        return float(found[1].replace(b",", b"")) if found else None

    def lost(match: re.Match[bytes]) -> bool:
        # Whatever stands around it, as in tensor(nan, device='cuda:0')
        text = match["loss"] if "loss" in groups else None
        return text is not None and not_finite(text) is not None

    def parse(line: bytes) -> Reading | None:
        match = compiled.search(line)
        step = value(match, "step") if match else None
        if match is None or step is None or not 0 <= step < 1e15:
            return None
        epoch = value(match, "epoch")
        return Reading(
            step=int(step),
            epoch=None if epoch is None else int(epoch),
            rate=value(match, "rate"),
            seconds=value(match, "seconds"),
            data_wait_seconds=value(match, "data"),
            loss=math.inf if lost(match) else value(match, "loss"),
        )

    return Format(
        name="pattern",
        scope=declared.scope,
        averaging=declared.averaging,
        unit=declared.unit or SAMPLES,
        anchors=(b"\n",),
        parse=parse,
    )
