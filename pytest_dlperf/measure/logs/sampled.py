"""Logs that print one iteration in many: a print says nothing of those since the one before it.

The prints are a sample of the iterations, and weigh alike. One that is far slower than the others
has an evaluation or a checkpoint in it, which come at the steps that are printed: it would stand
for many that had none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs import drift, spans
from pytest_dlperf.measure.logs.declare import Format
from pytest_dlperf.measure.logs.rules import Selection
from pytest_dlperf.measure.logs.spans import RateSeries

#: A print that is so many times slower than the median is of its own iteration alone.
SLOW: Final = 4.0
#: No number is given where the ways to count differ by such a factor.
_APART: Final = 1.5
#: The same where prints drift as means since the begin do.
_APART_BY_DRIFT: Final = 1.03
#: Nor where the log's own mean of all iterations does.
_APART_FROM_MEAN: Final = 1.15


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
    #: Why a clock's stretches are not all of training.
    jump: str = ""
    #: What the prints come to and the rate by the log's own mean, where that is another.
    from_mean: tuple[float, float] | None = None


def sample_of(selection: Selection, fmt: Format, rate_with_pauses: float | None = None) -> Sample:
    """Return what is left of a selection whose prints are of one iteration in many.

    ``rate_with_pauses`` is the rate with what was left out of the selection before: the log's own
    mean may have it as well.
    """
    sample = _sample_of(selection, fmt)
    own = _rate_by_mean(selection.series, fmt)
    rate = sample.rate_with_slow or sample.selection.throughput
    if own is None or rate is None:
        return sample
    least = rate if rate_with_pauses is None else min(rate, rate_with_pauses)
    if least <= _APART_FROM_MEAN * own and own <= _APART_FROM_MEAN * rate:
        return sample
    return replace(sample, from_mean=(rate, own))


def _rate_by_mean(series: RateSeries, fmt: Format) -> float | None:
    """Return the rate between the first and the last print by the log's own mean of all of them.

    None where it prints none. Iterations until a print over their mean rate are in proportion to
    the time until then.
    """
    known = np.flatnonzero(series.mean_rate > 0)
    if len(known) < 2:
        return None
    ends = known[[0, -1]]
    done = (series.label if fmt.counter == "global" else series.last)[ends]
    begin, end = done / series.mean_rate[ends]
    return float((done[1] - done[0]) / (end - begin)) if end > begin else None


def _jump_of_clock(selection: Selection) -> str:
    """Return what a few long stretches of a clock make of its rates; empty where they agree."""
    series, rate = selection.series, selection.throughput
    if rate is None:
        return ""
    median, mean = float(np.median(series.rate)), float(np.mean(series.rate))
    if max(rate, median, mean) <= _APART * min(rate, median, mean):
        return ""
    longest = int(np.argmax(series.seconds - series.work / median))
    return (
        f"by the clock the median rate is {median:.6g}, the mean {mean:.6g} and work over time "
        f"{rate:.6g}: {series.seconds[longest] / series.seconds.sum():.0%} of the time passed in "
        f"iterations {series.first[longest]:.0f} to {series.last[longest]:.0f}, where the clock "
        "was set on, the program stood still, or something else than training was done; split the "
        "log there"
    )


def _sample_of(selection: Selection, fmt: Format) -> Sample:
    series = selection.series
    if fmt.by_clock and (jump := _jump_of_clock(selection)):
        return Sample(selection=selection, jump=jump)
    if selection.throughput is None:
        return Sample(selection=selection)
    if not fmt.is_averaging_said:
        names_mean = fmt.names_mean is not None and fmt.names_mean()
        return _sample_of_unsaid(selection, names_mean=names_mean)
    if not (series.iterations > 1).any():
        return Sample(selection=selection)
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


def _sample_of_unsaid(selection: Selection, *, names_mean: bool) -> Sample:
    """Return the selection, and how far apart the meanings are of what is printed."""
    series = selection.series
    ways: tuple[tuple[str, float], ...] = (
        ("as means since the last print, window", spans.time_weighted(series)),
        ("as one iteration each, iteration", float(np.median(series.rate))),
    )
    most = _APART
    if not (series.iterations > 1).any():
        ways = ways[:1]  # a print of each iteration is of that one either way
    if (since_begin := drift.rate_as_means(series, names_mean=names_mean)) is not None:
        ways = (*ways, ("as means since the begin, running", since_begin))
        most = _APART_BY_DRIFT
    rates = [value for _, value in ways]
    apart = ways if max(rates) > most * min(rates) else ()
    return Sample(selection=selection, apart=apart, is_unsaid=True)


def _rate_with_slow(series: RateSeries, slow: spans.Flags) -> float:
    """Return work over time if each slow print is one iteration, and the others are as usual."""
    usual = series.where(~slow)
    usual_s = float(np.sum(usual.seconds) / np.sum(usual.iterations))
    others = float(np.sum(series.iterations[slow] - 1))
    slow_s = float(np.sum(series.seconds[slow] / series.iterations[slow]))
    return float(np.sum(series.work)) / (float(np.sum(usual.seconds)) + others * usual_s + slow_s)


def refusal(sample: Sample) -> Iterator[Problem]:
    """Return a problem if the ways to count are too far apart for a number."""
    if sample.jump:
        yield Problem(code="averages-differ", message=sample.jump)
    if sample.from_mean is not None:
        rate, own = sample.from_mean
        yield Problem(
            code="averages-differ",
            message=f"the prints, each of one iteration, come to {rate:.6g}, and the log's own "
            f"mean of all iterations over the same steps is {own:.6g}: print every iteration",
        )
        return
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
