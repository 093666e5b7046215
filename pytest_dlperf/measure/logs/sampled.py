"""Logs that print one iteration in many: a print says nothing of those since the one before it.

The prints are a sample of the iterations, and weigh alike. One that is far slower than the others
has an evaluation or a checkpoint in it, which come at the steps that are printed: it would stand
for many that had none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs import spans
from pytest_dlperf.measure.logs.clean import LINE_BYTES, untagged
from pytest_dlperf.measure.logs.declare import Format
from pytest_dlperf.measure.logs.rules import Selection
from pytest_dlperf.measure.logs.spans import RateSeries

#: A print that is so many times slower than the median is of its own iteration alone.
SLOW: Final = 4.0
#: No number is given where the ways to count differ by such a factor.
_APART: Final = 1.5
#: Lines before a slow print that have one of these announce what is in it.
_ANNOUNCES: Final = re.compile(
    rb"\b(?:eval|valid|val[_ :]|test|checkpoint|(?:save|saving)\b)", re.IGNORECASE
)
#: Blocks beyond so many are not searched for them.
_MOST_BLOCKS: Final = 64


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sample:
    """What a rule took, without the slow prints that are of one iteration each."""

    selection: Selection
    #: How many prints were left out.
    left_out: int = 0
    #: The rate with each of them counted as one iteration.
    rate_with_slow: float | None = None
    #: The ways to count, by name, that differ too much; empty if they do not.
    apart: tuple[tuple[str, float], ...] = ()
    #: Nobody said whether a print is of one iteration.
    is_unsaid: bool = False


def sample_of(selection: Selection, fmt: Format) -> Sample:
    """Return what is left of a selection whose prints are of one iteration in many."""
    series = selection.series
    if selection.throughput is None or not (series.iterations > 1).any():
        return Sample(selection=selection)
    if not fmt.is_averaging_said:
        return _sample_of_unsaid(selection)
    if fmt.averaging != "iteration":
        return Sample(selection=selection)
    lone = series.iterations > 1
    each = series.seconds / series.iterations
    slow = lone & (each > SLOW * np.median(each[lone]))
    kept = series.where(~slow)
    rate = spans.time_weighted(kept)
    with_slow = _rate_with_slow(series, slow)
    ways = (
        ("mean of rates", float(np.mean(kept.rate))),
        ("median", float(np.median(kept.rate))),
        ("work over time", rate),
        ("with slow prints as one iteration each", with_slow),
    )
    rates = [value for _, value in ways]
    return Sample(
        selection=replace(selection, series=kept, throughput=rate),
        left_out=int(slow.sum()),
        rate_with_slow=with_slow if slow.any() else None,
        apart=ways if max(rates) > _APART * min(rates) else (),
    )


def announced(sample: Sample, blocks: Iterable[bytes], fmt: Format) -> Sample:
    """Return the sample without doubt about slow prints that the log itself announces.

    Those have an evaluation or a checkpoint in them, and the iterations between have none.
    ``blocks`` are plain, whole lines.
    """
    if sample.is_unsaid or not sample.left_out or not sample.apart:
        return sample
    *others, _ = sample.apart
    rates = [value for _, value in others]
    if max(rates) > _APART * min(rates) or not _announces(blocks, fmt):
        return sample
    return replace(sample, apart=())


def _announces(blocks: Iterable[bytes], fmt: Format) -> bool:
    """Return whether words of an evaluation or a checkpoint come before each slow print."""
    each_s: list[float] = []
    has_words: list[bool] = []
    pause = False
    fmt = fmt.for_log()
    for block in islice(blocks, _MOST_BLOCKS):
        for line in block.split(b"\n"):
            record = fmt.parse(untagged(line[:LINE_BYTES]).text)
            seconds = None
            if record is not None:
                seconds = 1 / record.rate if record.rate else record.seconds
            if seconds is None:
                pause = pause or _ANNOUNCES.search(line) is not None
                continue
            each_s.append(seconds)
            has_words.append(pause)
            pause = False
    slow = np.array(each_s) > SLOW * np.median(each_s)
    return bool(np.all(np.array(has_words)[slow]))


def _sample_of_unsaid(selection: Selection) -> Sample:
    """Return the selection, and how far apart both meanings are of what is printed."""
    series = selection.series
    ways = (
        ("as means since the last print, window", spans.time_weighted(series)),
        ("as one iteration each, iteration", float(np.median(series.rate))),
    )
    rates = [value for _, value in ways]
    return Sample(
        selection=selection, apart=ways if max(rates) > _APART * min(rates) else (), is_unsaid=True
    )


def _rate_with_slow(series: RateSeries, slow: spans.Flags) -> float:
    """Return work over time if each slow print is one iteration, and the others are as usual."""
    usual = series.where(~slow)
    usual_s = float(np.sum(usual.seconds) / np.sum(usual.iterations))
    others = float(np.sum(series.iterations[slow] - 1))
    slow_s = float(np.sum(series.seconds[slow] / series.iterations[slow]))
    return float(np.sum(series.work)) / (float(np.sum(usual.seconds)) + others * usual_s + slow_s)


def refusal(sample: Sample) -> Iterator[Problem]:
    """Return a problem if the ways to count are too far apart for a number."""
    if sample.apart:
        words = ", ".join(f"{name} {rate:.6g}" for name, rate in sample.apart)
        yield Problem(
            code="averages-differ",
            message=(
                f"it matters what the printed numbers are means over ({words}), and nothing says "
                "it; say it (averaging)"
                if sample.is_unsaid
                else "a print is of one iteration, and nothing says how long those between took; "
                f"the ways to count differ too much ({words}): print every iteration, or means"
            ),
        )


def problems(sample: Sample) -> Iterator[Problem]:
    """Return a problem if slow prints were left out."""
    if sample.left_out and sample.rate_with_slow is not None:
        yield Problem(
            code="left-out",
            message=f"{sample.left_out} prints, of one iteration each, are more than {SLOW:g} "
            "times slower than the median, as those with an evaluation in them are, and were "
            f"left out; with each as one iteration the rate is {sample.rate_with_slow:.6g}",
        )
