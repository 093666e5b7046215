"""What is odd about a log: a stable code, and a sentence for people."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.core.run import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_dlperf.logs.declare import Format
    from pytest_dlperf.logs.facts import Facts
    from pytest_dlperf.logs.spans import Stretch
    from pytest_dlperf.logs.timeline import Timeline

#: So many iterations after the warm-up are a measurement.
LEAST_ITERATIONS: Final = 10
#: The last loss is NaN, or infinite.
LOSS_LOST: Final = "loss-not-finite"
#: The rules may differ by so much.
STABLE: Final = 1.10
DATA_BOUND: Final = 0.10
#: A first window of an epoch that is so much slower than the median stalls.
STALL: Final = 1.5
IMPLAUSIBLE: Final = 1.05


def of_facts(said: Facts, path: Facts) -> Iterator[Problem]:
    """Compare what a log says with what its path says."""
    world, node, named = said.world_size, said.node_devices, path.world_size
    if world is not None and named is not None and world != named:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {world} devices, its path {named}; {world} was taken",
        )
    elif world is None and node is not None and named is not None and named % node:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {node} devices a node, its path {named} in all",
        )
    if said.precision and path.precision and said.precision != path.precision:
        both = {said.precision, path.precision}
        # Two words of different teams for one thing
        if both != {"amp", "fp16"}:
            yield Problem(
                code="precision-mismatch",
                message=f"the log says {said.precision}, its path {path.precision}",
            )


def of_loss(loss_last: float | None) -> Iterator[Problem]:
    """Look at the last loss of a log: a rate means nothing if it is no finite number."""
    if loss_last is not None and not math.isfinite(loss_last):
        yield Problem(
            code=LOSS_LOST,
            message="the last loss in the log is no finite number, so its speed means nothing",
        )


def of_timeline(timeline: Timeline, form: Format, said: Facts) -> Iterator[Problem]:
    """Look at the course of a log."""
    if timeline.runs > 1:
        yield Problem(
            code="several-runs",
            message=f"{timeline.runs} runs are in this log, their steps start over; no number is "
            "given: split it where a run starts",
        )
    if timeline.repeats:
        ranks = timeline.prints / timeline.steps
        yield Problem(
            code="duplicate-ranks",
            message=f"each step is printed {ranks:.3g} times: {form.scope} rates of several "
            "ranks, taken for one and not added up",
        )
    last, total = timeline.last_step, timeline.total
    if said.killed_by:
        yield Problem(code="truncated", message=f"the run was killed: {said.killed_by!r}")
    elif last is not None and total is not None and last + _interval(timeline) <= total:
        yield Problem(code="truncated", message=f"the log ends at step {last} of {total}")
    if form.averaging == "running" and timeline.windows:
        yield Problem(
            code="running-mean",
            message="printed rates are means since an early step, which hide what happens late; "
            "throughput is what the iterations after the warm-up did by themselves",
        )


def _interval(timeline: Timeline) -> float:
    return float(np.median(timeline.windows.iterations())) if len(timeline.windows) else 1


def of_stretches(stretches: Sequence[Stretch], wait_share: float | None) -> Iterator[Problem]:
    """Look at the rates that were kept."""
    if wait_share is not None and wait_share > DATA_BOUND:
        yield Problem(
            code="data-bound", message=f"{wait_share:.1%} of the time is waiting for data"
        )
    rates = [stretch.rate for stretch in stretches]
    median = statistics.median(rates)
    weighted = sum(s.work for s in stretches) / sum(s.seconds for s in stretches)
    three = (statistics.fmean(rates), median, weighted)
    if max(three) > STABLE * min(three):
        worst = max(stretches, key=lambda s: abs(s.seconds - s.work / median))
        yield Problem(
            code="unstable",
            message=f"mean of rates {three[0]:.6g}, median {median:.6g} and time-weighted rate "
            f"{weighted:.6g} disagree; most by iterations {worst.first} to {worst.last}, at "
            f"{worst.rate:.6g} for {worst.seconds / sum(s.seconds for s in stretches):.0%} "
            "of the time",
        )
    stalls = [s for s in stretches if s.epoch_begins and median > STALL * s.rate]
    if stalls:
        yield Problem(
            code="epoch-stalls",
            message=f"{len(stalls)} epochs start slow: the slowest at "
            f"{min(s.rate for s in stalls):.6g}, median {median:.6g}",
        )


def insufficient(form: Format, timeline: Timeline, skip: int) -> Problem | None:
    """Say why what is left after the warm-up gives no number; None if it is enough to try."""
    iterations = timeline.iterations
    least = skip + LEAST_ITERATIONS
    message = ""
    if not timeline.steps:
        message = f"no line is a record of the format {form.name!r}"
    elif iterations < least:
        message = (
            f"{iterations} iterations are in the log; a number needs {skip} of warm-up and "
            f"{LEAST_ITERATIONS} more"
        )
    elif not timeline.windows:
        message = (
            f"{iterations} iterations are in the log, and none has a rate or a time that is a "
            "number above 0"
        )
    return Problem(code="insufficient-data", message=message) if message else None


def straddling(skip: int, until: int | None) -> Problem:
    """Say that no printed stretch of iterations lies within those that count."""
    end = "the end" if until is None else f"iteration {until}"
    return Problem(
        code="insufficient-data",
        message=f"no stretch from one print to the next lies between iteration {skip + 1} and "
        f"{end}; print more often",
    )


def implausible(model: str, medians: Mapping[str, tuple[int, float]]) -> Iterator[Problem]:
    """Compare the layouts of a model, each with its world size and median rate, two by two."""
    ordered = sorted(medians.items(), key=lambda item: item[1][0])
    for index, (small, (few, slow)) in enumerate(ordered):
        for large, (many, fast) in ordered[index + 1 :]:
            if many > few and fast / slow > IMPLAUSIBLE * many / few:
                yield Problem(
                    code="implausible-speedup",
                    message=f"{model}: {large} is {fast / slow:.3g} times as fast as {small} on "
                    f"{many / few:.3g} times the devices ({slow / few:.4g} to {fast / many:.4g} "
                    "a device)",
                )
