"""Compare the rates of a log with its own clock: how long its prints were apart.

A program's timer may leave out what an iteration is made of, or be read wrong; the clock of its
lines goes on. It has more in it as well: evaluations and checkpoints, which most stretches between
prints have not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs.by_clock import FINER
from pytest_dlperf.measure.logs.clean import LINE_BYTES, untagged
from pytest_dlperf.measure.logs.clocks import Clock
from pytest_dlperf.measure.logs.declare import Format
from pytest_dlperf.measure.logs.spans import RateSeries

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: A log whose rates and clock contradict each other.
MISMATCH: Final = "clock-mismatch"
#: They do if they differ by more than this.
APART: Final = 1.15
#: So many stretches between prints are enough.
LEAST: Final = 5
#: Shorter stretches are joined: programs print late, too.
_LEAST_S: Final = 1.0
#: Of the stretches, from the shortest: what an evaluation is in is beyond.
_WITHOUT_PAUSES: Final = 0.25


#: Lines between prints that have one of these tell of something that takes its time.
_PAUSES: Final = re.compile(
    rb"\b(?:eval|valid|val[_ :]|test|checkpoint|(?:save|saving)\b)", re.IGNORECASE
)
#: Blocks beyond so many are not searched for them.
_MOST_BLOCKS: Final = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class ClockCheck:
    """What the clock says of the iterations that were measured; None where it says nothing."""

    #: Median iterations a second.
    iterations_per_s: float | None = None
    #: The clock says that iterations took longer than their rates do, as pauses would make it.
    is_slower: bool = False
    problem: Problem | None = None


def check(
    kept: RateSeries, clock: Clock, fmt: Format, *, unit: str, batch: float | None
) -> ClockCheck:
    """Return what the clock says of the windows that were kept, and whether it contradicts them.

    ``batch`` is the work of an iteration by the log, the options or the case; None is unknown.
    """
    # A counter that stalls counts updates, and not all of their iterations.
    if clock.style is None or fmt.by_clock or fmt.counter == "stalls":
        return ClockCheck()
    elapsed, printed, iterations = stretches(kept, max(_LEAST_S, FINER * clock.resolution))
    if len(elapsed) < LEAST:
        return ClockCheck()
    each = float(np.median(elapsed / iterations))
    problem, is_slower = None, False
    ratios = elapsed / printed
    if not _knows_seconds(kept, unit, batch):
        # Seconds are those of one sample: the ratio is the batch that both would make.
        problem = _no_batch(float(np.median(ratios)), kept, each, clock, unit)
    elif np.quantile(ratios, _WITHOUT_PAUSES) > APART:
        problem, is_slower = _mismatch(kept, each, clock, unit), True
    elif elapsed.sum() < printed.sum() / APART:
        problem = _mismatch(kept, each, clock, unit)
    return ClockCheck(iterations_per_s=1 / each, problem=problem, is_slower=is_slower)


def stretches(kept: RateSeries, least_s: float) -> tuple[Floats, Floats, Floats]:
    """Return stretches between stamps, joined until they are long enough.

    For each, its seconds by the clock, its seconds by the rates, and its iterations. Those across
    the begin of an epoch are left out: between epochs other things are done.
    """
    follows = np.zeros(len(kept), dtype=bool)
    follows[1:] = kept.first[1:] == kept.last[:-1] + 1
    steps = np.diff(kept.at_s, prepend=np.nan)
    goes_on = follows & ~kept.epoch_begins & (steps >= 0)
    rows: list[tuple[float, float, float]] = []
    elapsed = printed = iterations = 0.0
    columns = zip(
        goes_on.tolist(),
        steps.tolist(),
        kept.seconds.tolist(),
        kept.iterations.tolist(),
        strict=True,
    )
    for goes, step_s, seconds, count in columns:
        if not goes:
            elapsed = printed = iterations = 0.0
            continue
        elapsed, printed, iterations = elapsed + step_s, printed + seconds, iterations + count
        if elapsed >= least_s:
            rows.append((elapsed, printed, iterations))
            elapsed = printed = iterations = 0.0
    table = np.array(rows).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


def has_pauses(blocks: Iterable[bytes], fmt: Format) -> bool:
    """Return whether words of an evaluation or a checkpoint come before most prints of a log.

    ``blocks`` are plain, whole lines.
    """
    prints = paused = 0
    pause = False
    fmt = fmt.for_log()
    for block in islice(blocks, _MOST_BLOCKS):
        for line in block.split(b"\n"):
            has_anchor = fmt.anchors == (b"\n",) or any(word in line for word in fmt.anchors)
            record = fmt.parse(untagged(line[:LINE_BYTES]).text) if has_anchor else None
            if record is None or (record.rate is None and record.seconds is None):
                pause = pause or _PAUSES.search(line) is not None
                continue
            prints, paused, pause = prints + 1, paused + pause, False
    return 2 * paused > prints


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


def _no_batch(
    implied: float, kept: RateSeries, each: float, clock: Clock, unit: str
) -> Problem | None:
    """Return a problem if no whole number of samples makes both the rate and the clock right."""
    nearest = max(1.0, round(implied))
    if unit.startswith("tokens") or 1 / APART <= implied / nearest <= APART:
        return None
    return Problem(
        code=MISMATCH,
        message=f"the rates are {float(np.median(kept.rate)):.6g} {unit}/s, and by the clock of "
        f"the same lines ({_named(clock)}) an iteration takes {each:.4g} s: that would be "
        f"{implied:.3g} {unit} an iteration, and is not a whole number. What is printed is not of "
        "all devices, or leaves something out; --rule=dlperf takes what is printed",
    )


def _named(clock: Clock) -> str:
    return "" if clock.style is None else clock.style.name


def refusal(checked: ClockCheck, rule: str) -> Iterator[Problem]:
    """Yield why a rule that nobody chose gives no number: the rates and the clock disagree."""
    if rule == "time-weighted" and checked.problem is not None:
        yield checked.problem


def problems(checked: ClockCheck, rule: str) -> Iterator[Problem]:
    """Yield what the clock says against a mean of printed rates."""
    if rule == "dlperf" and checked.problem is not None:
        yield checked.problem
