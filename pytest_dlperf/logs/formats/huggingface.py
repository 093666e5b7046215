"""Hugging Face Trainer: ``speed_metrics`` of ``transformers/trainer_utils.py``.

Its log holds one rate, of the whole run; its warm-up cannot be taken out.
"""

from __future__ import annotations

from typing import Final

from pytest_dlperf.logs.declare import Field, Format, Loss, Reading

_WHOLE: Final = Field(rb"'?train_samples_per_second'?\s{0,32}[:=] {0,8}'?")
_LOSS: Final = Loss(rb"^{'loss': '?")


def parse(line: bytes) -> Reading | None:
    """Read a loss, or the rate of the run; no line tells its step."""
    whole = _WHOLE(line)
    loss = _LOSS(line)
    if whole is None and loss is None:
        return None
    return Reading(step=0, loss=loss, whole_run=whole)


FORMAT: Final = Format(
    name="huggingface",
    scope="global",
    averaging="whole",
    unit="samples",
    counter="stalls",
    anchors=(b"train_samples_per_second", b"{'loss':"),
    parse=parse,
    by_shape=True,
)
