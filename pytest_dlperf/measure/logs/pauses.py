"""Prints of a log before which it names an evaluation or a checkpoint, which takes its time.

Where they are slower than the others, they are left out of the rate, however often a log prints.
The words are those of what is done, and of its results. A word that is a part of a path, of a
module's name or of a setting (``eval_steps=100``) names nothing that is done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs import spans
from pytest_dlperf.measure.logs.clean import LINE_BYTES, untagged
from pytest_dlperf.measure.logs.declare import Format, LogRecord
from pytest_dlperf.measure.logs.evaluation_words import AFTER, BEFORE, EVALUATION
from pytest_dlperf.measure.logs.rules import Selection
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
#: Prints with a pause in them are slower than the others by more than this.
_SLOWER: Final = 1.15
#: So many others show how long an iteration takes.
_LEAST: Final = 5
#: A log is searched for words if pauses may be so much of its time, in prints so slow.
_SHARE: Final = 1.02
_SLOW: Final = 1.5


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
    for block in islice(blocks, _MOST_BLOCKS):
        lines = block.split(b"\n")
        for line, record in zip(lines, _records(lines, fmt), strict=True):
            if record is None or record.aside:
                follows_pause = follows_pause or record is not None or _names_pause(line)
                continue
            step = record.step if record.step >= 0 else step
            seconds = 1 / record.rate if record.rate else record.seconds
            if fmt.by_clock or seconds is not None or record.elapsed_s is not None:
                yield Print(step, seconds, follows_pause)
                follows_pause = False


def _records(lines: Sequence[bytes], fmt: Format) -> list[LogRecord | None]:
    """Return the record of each line, or None where it is not one."""
    reads_all = fmt.anchors == (b"\n",)
    texts = {
        place: untagged(line[:LINE_BYTES]).text
        for place, line in enumerate(lines)
        if reads_all or any(word in line for word in fmt.anchors)
    }
    parsed = (
        fmt.in_order.records([*texts.values()]) if fmt.in_order else map(fmt.parse, texts.values())
    )
    records = dict(zip(texts, parsed, strict=True))
    return [records.get(place) for place in range(len(lines))]


def _names_pause(line: bytes) -> bool:
    return _PAUSE.search(line) is not None


def follow_pauses(series: RateSeries, prints_of_log: Iterable[Print], fmt: Format) -> list[bool]:
    """Return which windows of a whole log have words of a pause before their print.

    Of its first windows alone if the prints of the others are not among those that are searched.
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
    return paused


def left_out_within(
    validations: int, series: RateSeries, skip: int, last: int
) -> Iterator[Problem]:
    """Yield what was left out of the epochs of a bar that went on after so many validations.

    Of the iterations after the first ``skip``, until the ``last`` one.
    """
    left_out = last - skip - int(series.iterations.sum())
    if validations and left_out > 0:
        yield Problem(
            code="left-out",
            message=f"training's bar went on after a validation {validations} times within an "
            f"epoch: {left_out} of {last - skip} iterations after the warm-up, those before and "
            "after it which the bar's whole seconds do not tell from it, were left out",
        )


def may_be_in(series: RateSeries) -> bool:
    """Return whether some windows are so slow that pauses may be in them."""
    if len(series) <= _LEAST:
        return False
    each_s = series.seconds / series.iterations
    usual_s = float(np.median(each_s))
    in_all = float(np.sum(series.seconds) / np.sum(series.iterations))
    return in_all > _SHARE * usual_s and float(np.max(each_s)) > _SLOW * usual_s


class LeftOut(NamedTuple):
    """What was left out of a selection."""

    problem: Problem
    #: The rate with it.
    rate_with: float


def selection_without_pauses(
    selection: Selection, paused: Flags
) -> tuple[Selection, LeftOut | None]:
    """Return a selection of windows without those that are ``paused``, and what was left out.

    All of them are left out, fast ones as well, if together they are slower than the others.
    """
    series = selection.series
    if paused.sum() == 0 or (~paused).sum() < _LEAST:
        return selection, None
    kept, slow = series.where(~paused), series.where(paused)
    usual_s, paused_s = (
        float(np.sum(each.seconds) / np.sum(each.iterations)) for each in (kept, slow)
    )
    if paused_s <= _SLOWER * usual_s:
        return selection, None
    rate_with = spans.time_weighted(series)
    problem = Problem(
        code="left-out",
        message=f"words of an evaluation or a checkpoint come before {len(slow)} of "
        f"{len(series)} prints that were measured, whose iterations took {paused_s / usual_s:.3g} "
        "times as long as the others, and which were left out; with them the rate is "
        f"{rate_with:.6g}",
    )
    selection = replace(selection, series=kept, throughput=spans.time_weighted(kept))
    return selection, LeftOut(problem, rate_with)
