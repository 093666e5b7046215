"""Compare the rates of a log with its own clock: how long its prints were apart.

A program's timer may leave out what an iteration is made of, or be read wrong; the clock of its
lines goes on. It has more in it as well: evaluations and checkpoints. Prints before which the log
names one are left out; what else passed between prints is a contradiction, however few they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs.by_clock import FINER
from pytest_dlperf.measure.logs.clocks import Clock
from pytest_dlperf.measure.logs.declare import Format
from pytest_dlperf.measure.logs.spans import RateSeries
from pytest_dlperf.measure.logs.stated_work import Stated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]

#: A log whose rates and clock contradict each other.
MISMATCH: Final = "clock-mismatch"
#: They do if they differ by more than this.
APART: Final = 1.15
#: So many stretches between prints are enough.
LEAST: Final = 5
#: Shorter stretches are joined: programs print late, too.
_LEAST_S: Final = 1.0
#: Of the stretches, from the shortest: where no batch is known, it is that of these.
_WITHOUT_PAUSES: Final = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockCheck:
    """What the clock says of the iterations that were measured; None where it says nothing."""

    #: Median iterations a second.
    iterations_per_s: float | None = None
    #: The clock says that iterations took longer than their rates do, as pauses would make it.
    is_slower: bool = False
    problem: Problem | None = None
    #: Most stretches agree, and the others are so much longer that all together do not.
    most_agree: bool = False
    #: What evaluations and checkpoints took, where they are why the clock has more.
    pauses: Problem | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What is known of the work of an iteration, in the unit of the rates."""

    unit: str
    #: By the log, the options or the case; None is unknown.
    batch: float | None
    #: What else the log says of it, where rates are not scaled by it.
    stated: Sequence[Stated] = ()


def check(
    kept: RateSeries,
    clock: Clock,
    fmt: Format,
    *,
    work: Work,
    paused: Callable[[], Flags] | None = None,
) -> ClockCheck:
    """Return what the clock says of the windows that were kept, and whether it contradicts them.

    ``paused`` reads the log again, where it can be, and returns before which windows it names an
    evaluation or a checkpoint.
    """
    # A counter that stalls counts updates, and not all of their iterations.
    if clock.style is None or fmt.by_clock or fmt.counter == "stalls":
        return ClockCheck()
    least_s = max(_LEAST_S, FINER * clock.resolution)
    none_paused = np.zeros(len(kept), dtype=bool)
    # Digits that were not printed contradict no clock.
    apart = APART * (1 + fmt.rounded_share)

    def compared(without: Flags) -> ClockCheck:
        between = stretches(kept, least_s, without)
        return _checked(kept, between, clock, work, apart)

    checked = compared(none_paused)
    if not checked.is_slower or paused is None:
        return checked
    follow_pauses = paused()
    if not follow_pauses.any():
        return checked
    without = compared(follow_pauses)
    return replace(without, pauses=None if without.problem else _pauses(kept, follow_pauses))


def _checked(
    kept: RateSeries,
    between: tuple[Floats, Floats, Floats],
    clock: Clock,
    work: Work,
    apart: float,
) -> ClockCheck:
    """Return what stretches between prints say; rates that differ by ``apart`` contradict."""
    elapsed, printed, iterations = between
    if len(elapsed) < LEAST:
        return ClockCheck()
    each = float(np.median(elapsed / iterations))
    ratios = elapsed / printed
    in_all = float(elapsed.sum() / printed.sum())
    unit = work.unit
    problem, is_slower, most_agree = None, False, False
    if not _knows_seconds(kept, unit, work.batch):
        # Seconds are those of one sample: the ratio is the batch that both would make.
        implied = float(np.median(ratios))
        problem = _no_batch(implied, kept, each, clock, unit, apart)
        contradicting = (stated for stated in work.stated if stated.contradicts(implied, apart))
        unlike = next(contradicting, None)
        if problem is None and unlike is not None:
            problem = _unlike(implied, unlike, kept, each, clock, unit)
            is_slower = implied > unlike.work
        longer = in_all / float(np.quantile(ratios, _WITHOUT_PAUSES))
        if problem is None and longer > apart:
            problem, is_slower, most_agree = _longer(kept, longer, clock, unit), True, True
    elif np.quantile(ratios, 0.5, method="lower") > apart:
        problem, is_slower = _mismatch(kept, each, clock, unit), True
    elif in_all > apart:
        problem, is_slower, most_agree = _longer(kept, in_all, clock, unit), True, True
    elif in_all < 1 / apart:
        problem = _mismatch(kept, each, clock, unit)
    return ClockCheck(
        iterations_per_s=1 / each, problem=problem, is_slower=is_slower, most_agree=most_agree
    )


def stretches(kept: RateSeries, least_s: float, paused: Flags) -> tuple[Floats, Floats, Floats]:
    """Return stretches between stamps, joined until they are long enough.

    For each, its seconds by the clock, its seconds by the rates, and its iterations. Those across
    the begin of an epoch are left out, as between epochs other things are done. Windows that are
    ``paused`` are left out of the stretch around them, whose parts are rounded apart.
    """
    follows = np.zeros(len(kept), dtype=bool)
    follows[1:] = kept.first[1:] == kept.last[:-1] + 1
    steps = np.diff(kept.at_s, prepend=np.nan)
    goes_on = follows & ~kept.epoch_begins & (steps >= 0)
    rows: list[tuple[float, float, float]] = []
    elapsed = printed = iterations = 0.0
    parts = 1
    columns = zip(
        goes_on.tolist(),
        paused.tolist(),
        steps.tolist(),
        kept.seconds.tolist(),
        kept.iterations.tolist(),
        strict=True,
    )
    for goes, is_paused, step_s, seconds, count in columns:
        if not goes:
            elapsed = printed = iterations = 0.0
            parts = 1
            continue
        if is_paused:
            parts += elapsed > 0
            continue
        elapsed, printed, iterations = elapsed + step_s, printed + seconds, iterations + count
        if elapsed >= least_s * parts**0.5:
            rows.append((elapsed, printed, iterations))
            elapsed = printed = iterations = 0.0
            parts = 1
    table = np.array(rows).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def _pauses(kept: RateSeries, paused: Flags) -> Problem:
    elapsed = np.diff(kept.at_s, prepend=np.nan)[paused]
    known = elapsed > 0
    return Problem(
        code="left-out",
        message=f"words of an evaluation or a checkpoint come before {paused.sum()} of "
        f"{len(kept)} prints that were measured: {elapsed[known].sum():.4g} s passed there by the "
        f"clock, and {kept.seconds[paused][known].sum():.4g} s by the rates, which leave the rest "
        "out",
    )


def _knows_seconds(kept: RateSeries, unit: str, batch: float | None) -> bool:
    """Return whether the seconds of windows are known, and not only in proportion.

    A batch counts samples, and says nothing of tokens.
    """
    if not kept.knows_work.all():
        return False
    by_batch = batch is not None and np.allclose(kept.work, batch * kept.iterations)
    return not (by_batch and unit.startswith("tokens"))


def _mismatch(kept: RateSeries, each: float, clock: Clock, unit: str) -> Problem:
    work = float(np.median(kept.work / kept.iterations))
    rate = float(np.median(kept.rate))
    return Problem(
        code=MISMATCH,
        message=f"the rates are {rate:.6g} {unit}/s, and by the clock of the same lines "
        f"({_named(clock)}) it is {work / each:.6g}: {each:.4g} s an iteration of {work:.6g} "
        f"{unit}. What is printed leaves something out, is not of all iterations, or the "
        "batch is another one; --rule="
        "dlperf-time takes the clock, --rule=dlperf what is printed",
    )


def _longer(kept: RateSeries, longer: float, clock: Clock, unit: str) -> Problem:
    """Return that all stretches together are so many times longer by the clock."""
    rate = float(np.median(kept.rate))
    return Problem(
        code=MISMATCH,
        message=f"the rates are {rate:.6g} {unit}/s, and by the clock of the same lines "
        f"({_named(clock)}) {rate / longer:.6g} in all: {longer:.3g} times the time passed "
        "between the prints, and no words of an evaluation or a checkpoint say why; --rule="
        "dlperf-time takes the clock",
    )


def _no_batch(
    implied: float, kept: RateSeries, each: float, clock: Clock, unit: str, apart: float
) -> Problem | None:
    """Return a problem if no whole number of samples makes both the rate and the clock right."""
    nearest = max(1.0, round(implied))
    if unit.startswith("tokens") or 1 / apart <= implied / nearest <= apart:
        return None
    return Problem(
        code=MISMATCH,
        message=f"the rates are {float(np.median(kept.rate)):.6g} {unit}/s, and by the clock of "
        f"the same lines ({_named(clock)}) an iteration takes {each:.4g} s: that would be "
        f"{implied:.3g} {unit} an iteration, and is not a whole number. What is printed is not of "
        "all devices, or leaves something out; --rule=dlperf takes what is printed",
    )


def _unlike(
    implied: float, stated: Stated, kept: RateSeries, each: float, clock: Clock, unit: str
) -> Problem:
    """Return that the work of an iteration by rate and clock is not what the log says."""
    return Problem(
        code=MISMATCH,
        message=f"the rates are {float(np.median(kept.rate)):.6g} {unit}/s, and by the clock of "
        f"the same lines ({_named(clock)}) an iteration takes {each:.4g} s: that would be "
        f"{implied:.6g} {unit} an iteration, and {stated.words}. What is printed leaves something "
        "out, or the batch is another one (--batch_size_per_device, --world_size); --rule=dlperf "
        "takes what is printed",
    )


def _named(clock: Clock) -> str:
    return "" if clock.style is None else clock.style.name


def refusal(checked: ClockCheck, rule: str) -> Iterator[Problem]:
    """Yield why a rule that nobody chose gives no number: the rates and the clock disagree."""
    if rule == "time-weighted" and checked.problem is not None and not checked.most_agree:
        yield checked.problem


def problems(checked: ClockCheck, rule: str) -> Iterator[Problem]:
    """Yield what the clock says against the printed rates, and what pauses took."""
    if checked.pauses is not None:
        yield checked.pauses
    if checked.problem is not None and (rule == "dlperf" or checked.most_agree):
        yield checked.problem
