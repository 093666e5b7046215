"""Prints of a log before which it names an evaluation or a checkpoint, which takes its time.

The words are those of what is done, and of its results. A word that is a part of a path, of a
module's name or of a setting (``eval_steps=100``) names nothing that is done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pytest_dlperf.measure.logs.clean import LINE_BYTES, untagged
from pytest_dlperf.measure.logs.declare import Format
from pytest_dlperf.measure.logs.evaluation_words import AFTER, BEFORE, EVALUATION
from pytest_dlperf.measure.logs.spans import RateSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Flags = NDArray[np.bool_]

_PAUSE: Final = re.compile(
    BEFORE + rb"(?:(?:" + EVALUATION + rb"|checkpoint(?:s|ed|ing)?"
    rb"|(?:save[ds]?|saving)(?:_(?:checkpoint|model|state)\w{0,16})?)"
    + AFTER
    + rb"|(?:eval|val|valid|validation|test)[_/](?:start|stop|loss|acc|ppl|perplexity|score|metric"
    rb"|runtime|error|top\d|map|miou|bleu|f1|auc|bpb)"
    rb")",
    re.IGNORECASE,
)
#: Blocks beyond so many are not searched for them.
_MOST_BLOCKS: Final = 64


class Print(NamedTuple):
    """A print of a speed."""

    #: As printed; -1 where the log has printed none so far.
    step: int
    #: Of an iteration; None where a clock that runs on is printed.
    seconds: float | None
    #: Words of a pause come between the print before and this one.
    follows_pause: bool


def prints(blocks: Iterable[bytes], fmt: Format) -> Iterator[Print]:
    """Yield the prints of a log that have a speed; ``blocks`` are plain, whole lines."""
    step = -1
    follows_pause = False
    fmt = fmt.for_log()
    reads_all = fmt.anchors == (b"\n",)
    for block in islice(blocks, _MOST_BLOCKS):
        for line in block.split(b"\n"):
            record = None
            if reads_all or any(word in line for word in fmt.anchors):
                record = fmt.parse(untagged(line[:LINE_BYTES]).text)
            if record is None or record.aside:
                follows_pause = follows_pause or record is not None or _names_pause(line)
                continue
            step = record.step if record.step >= 0 else step
            seconds = 1 / record.rate if record.rate else record.seconds
            if seconds is not None or record.elapsed_s is not None:
                yield Print(step, seconds, follows_pause)
                follows_pause = False


def _names_pause(line: bytes) -> bool:
    return _PAUSE.search(line) is not None


def follow_pauses(series: RateSeries, prints_of_log: Iterable[Print], fmt: Format) -> Flags:
    """Return which windows of a whole log have words of a pause before their print.

    A window whose print is not among those that are searched may have them.
    """
    labels = iter(series.label.tolist())
    label = next(labels, None)
    paused: list[bool] = []
    follows_pause = False
    for each in prints_of_log:
        follows_pause = follows_pause or each.follows_pause
        if label is not None and each.step + 1 - fmt.first_step == label:
            paused.append(follows_pause)
            label, follows_pause = next(labels, None), False
    return np.array(paused + [True] * (len(series) - len(paused)), dtype=bool)
