"""Hugging Face Trainer: its progress bar, and ``speed_metrics`` of ``trainer_utils.py``.

The bar of ``trainer_callback.py`` has no words before it: `` 5%|#  | 50/1000 [00:25<08:03,
1.97it/s]`` counts updates of the whole run over the time since it began, a running mean.
Evaluation has a bar of its own. Rates are printed once, of the whole run, warm-up and all.
"""

from __future__ import annotations

import re
from typing import Final

from pytest_dlperf.measure.logs.declare import Field, Format, Loss, Reading

_BAR: Final = re.compile(
    rb"^(?:\d{1,5}:)?\s{0,8}\d{1,3}%\|[^|\n]{0,400}\| {0,8}(\d{1,15})/(\d{1,15}) "
    rb"\[(?:(\d{1,6}):)?(\d\d):(\d\d)<[\d:?]{1,16}, {1,4}[\d.?]{1,9}(?:it/s|s/it)"
)
_WHOLE: Final = Field(rb"'?train_samples_per_second'?\s{0,32}[:=] {0,8}'?")
_WHOLE_SECONDS: Final = Field(rb"'train_runtime': '?")
_LOSS: Final = Loss(rb"{'loss': '?")
_TOTAL: Final = Field(rb"\bTotal optimization steps = ")
_BEGINS: Final = b"***** Running training"
_OTHER: Final = re.compile(rb"\*{5} Running (?:Evaluation|Prediction)")


def parse(line: bytes) -> Reading | None:
    """Read a state of the bar, and words, which tell no step: some stand on a bar's own line.

    Its end is no line end: a dictionary that is printed next comes right after it.
    """
    match = _BAR.match(line)
    whole, seconds, loss = _WHOLE(line), _WHOLE_SECONDS(line), _LOSS(line)
    if match is None:
        total = _TOTAL.whole(line)
        aside = 0 if _BEGINS in line else 1 if _OTHER.search(line) else None
        words = (whole, seconds, loss, total, aside)
        if all(word is None for word in words):
            return None
        return Reading(
            step=-1, loss=loss, whole_run=whole, whole_seconds=seconds, total=total, aside=aside
        )
    done = int(match[1])
    elapsed = int(match[3] or 0) * 3600 + int(match[4]) * 60 + int(match[5])
    if done < 1 or elapsed < 1:
        return None
    return Reading(
        step=done,
        total=int(match[2]),
        seconds=elapsed / done,
        loss=loss,
        whole_run=whole,
        whole_seconds=seconds,
    )


FORMAT: Final = Format(
    name="huggingface",
    scope="process",
    averaging="running",
    running_since=1,
    unit="samples",
    first_step=1,
    counter="global",
    anchors=(
        b"it/s",
        b"s/it",
        b"train_samples_per_second",
        b"{'loss':",
        b"***** Running ",
        b"Total optimization steps",
    ),
    parse=parse,
    by_shape=True,
    bar=True,
    last_resort=True,
)
