"""Megatron-LM: ``training_log`` of ``megatron/training/training.py``.

Milliseconds of an iteration over the window, and the global batch on the same line (``gloabl
batch size`` in Ascend's fork). ROCm's fork and Primus print a mean of recent iterations after a
slash, which is not used. GPT-NeoX (``megatron/logging.py``) and older Megatron-DeepSpeed name no
batch but the samples a second of all devices.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_STEP: Final = Field(rb"\biteration {1,12}", rb"/")
_TOTAL: Final = Field(rb"\biteration {1,12}\d{1,15}/ {0,12}")
_MILLISECONDS: Final = Field(rb"elapsed time per iteration \(ms\): {0,12}")
_BATCH: Final = Field(rb"\b(?:global|gloabl) batch size: {1,12}")
_RATE: Final = Field(rb"\bsamples(?: per second|/sec): {1,12}")
_LOSS: Final = Loss(rb"\blm[ _]loss:? {1,12}")


def parse(line: bytes) -> Reading | None:
    """Read a record."""
    step = _STEP.whole(line)
    milliseconds = _MILLISECONDS(line)
    if step is None or milliseconds is None or milliseconds <= 0:
        return None
    batch = _BATCH(line)
    return Reading(
        step=step,
        total=_TOTAL.whole(line),
        rate=_RATE(line) if batch is None else batch / milliseconds * 1000,
        work=batch,
        seconds=milliseconds / 1000,
        loss=_LOSS(line),
    )


FORMAT: Final = Format(
    name="megatron",
    scope="global",
    averaging="window",
    unit="sequences",
    first_step=1,
    counter="global",
    anchors=(b"elapsed time per iteration (ms):",),
    parse=parse,
    by_shape=True,
)
