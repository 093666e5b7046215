"""What is odd about a log: a stable code, and a sentence for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs.declare import Format
from pytest_dlperf.measure.logs.rules import Selection
from pytest_dlperf.measure.logs.spans import Stretches
from pytest_dlperf.measure.logs.timeline import Timeline

if TYPE_CHECKING:
    from pytest_dlperf.measure.logs.facts import Facts
    from pytest_dlperf.measure.logs.sizes import Sizes


def refusal(
    timeline: Timeline,
    form: Format,
    size: Sizes,
    selection: Selection,
    stretches: Stretches,
    *,
    skip: int,
    until: int | None,
) -> tuple[Problem, ...]:
    """Say why no number is given; empty where one is."""
    if form.averaging == "whole" or (timeline.whole_run and not timeline.windows):
        return _insufficient(
            "the log has one rate of the whole run, from which the warm-up cannot be taken out"
        )
    if timeline.windows and not len(stretches):
        return (_unknown_scale(timeline, form, size),)
    if not timeline.steps:
        return _insufficient(f"no line is a record of the format {form.name!r}")
    if timeline.iterations < skip + LEAST_ITERATIONS:
        return _insufficient(
            f"{timeline.iterations} iterations are in the log; a number needs {skip} of warm-up "
            f"and {LEAST_ITERATIONS} more"
        )
    if not len(selection.stretches):
        return _insufficient(_nothing_left(timeline, form, stretches, skip, until))
    if selection.throughput is None:
        if not selection.stretches.knows_work.all():
            return (
                Problem(
                    code="unknown-scale",
                    message="what is done between two time stamps takes the work of an iteration, "
                    "and neither the log nor its path says it",
                ),
            )
        return _insufficient("two time stamps are not in what is kept")
    return ()


def _insufficient(message: str) -> tuple[Problem, ...]:
    return (Problem(code="insufficient-data", message=message),)


def _nothing_left(
    timeline: Timeline, form: Format, stretches: Stretches, skip: int, until: int | None
) -> str:
    """Say why enough iterations were counted, and none of them measured."""
    if until is not None and len(stretches) and np.any(stretches.first > skip):
        return f"no print lies wholly within steps {skip + 1} to {until}; print more often"
    if form.bar:
        return "the bar shows whole seconds, and after the warm-up no epoch has enough"
    if timeline.coarse:
        return (
            f"its mean times are printed to {form.resolution:g} s, too coarse for iterations as "
            "short as these: the rounding would be more than 2.5 % of the rate"
        )
    if timeline.left_out and not len(stretches):
        return "every print has the time of an evaluation in it; print more often"
    if not len(stretches):
        return (
            f"{timeline.iterations} iterations are in the log, and none has a rate or a time that "
            "is a number above 0"
        )
    return (
        f"{timeline.iterations} iterations are in the log, and no print that has a rate lies "
        f"wholly after the {skip} of warm-up"
    )


def _unknown_scale(timeline: Timeline, form: Format, size: Sizes) -> Problem:
    if size.is_unsure:
        return Problem(
            code="unknown-scale",
            message="the path's batch size may be of one device or of all, and the time of an "
            "iteration is that of all",
        )
    columns = timeline.windows.columns()
    by_rate = form.scope != "process" and not np.isnan(columns["rate"]).all()
    has_batch = by_rate or size.batch_size_per_device is not None
    missing = [
        f"the {word}"
        for word, known in (
            ("batch size", has_batch),
            ("world size", size.world_size is not None),
        )
        if not known
    ]
    # A node's rate with a world size lacks the devices of a node.
    missing = missing or ["the devices of a node"]
    what = f"rates are per {form.scope}" if by_rate else "only the time of an iteration is printed"
    return Problem(
        code="unknown-scale",
        message=f"{what}, and neither the log nor its path says {' and '.join(missing)}",
    )


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


def of_facts(said: Facts, path: Facts, taken: int | None) -> Iterator[Problem]:
    """Compare what a log says with what its path says; ``taken`` is the world size in use."""
    world, node, named = said.all_devices, said.node_devices, path.world_size
    if said.two_worlds is not None:
        one, other = said.two_worlds
        yield Problem(
            code="several-runs",
            message=f"the log says {one} devices or nodes, and {other} in another place: runs on "
            "both are in it; no number is given: split it where a run starts",
        )
    elif said.restarts.word:
        yield Problem(
            code="several-runs",
            message=f"a run starts again in this log ({said.restarts.word[:60]!r} comes twice, "
            "with steps between), with a warm-up of its own; no number is given: split it there",
        )
    if world is not None and named is not None and world != named:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {world} devices, its path {named}; {taken} was taken",
        )
    elif world is None and node is not None and named is not None and named % node:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {node} devices a node, its path {named} in all",
        )
    elif world is None and said.data_parallel and named and named % said.data_parallel:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {said.data_parallel} data-parallel devices, its path {named} "
            f"in all; {said.data_parallel} was taken",
        )
    if said.precision and path.precision and said.precision != path.precision:
        both = {said.precision, path.precision}
        # Words of different teams for one thing
        if both not in ({"amp", "fp16"}, {"amp", "bf16"}):
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
    elif timeline.bars.two_trainings:
        yield Problem(
            code="several-runs",
            message="the log says how many steps its training has, twice and not the same; no "
            "number is given: split it where a training starts",
        )
    elif timeline.bars.is_resumed:
        yield Problem(
            code="several-runs",
            message="the clock of training's bar starts over where its steps go on: a run that "
            "was resumed, with a warm-up of its own; no number is given: split it there",
        )
    if timeline.ranks.repeats and not form.bar:
        ranks = timeline.prints / timeline.steps
        yield Problem(
            code="duplicate-ranks",
            message=f"each step is printed {ranks:.3g} times: {form.scope} rates of several "
            "ranks, taken for one and not added up",
        )
    last, total = timeline.last_step, timeline.total
    epoch, epochs = timeline.last_epoch, timeline.epochs
    if said.killed_by:
        yield Problem(code="truncated", message=f"the run was broken off: {said.killed_by!r}")
    elif last is not None and total is not None and last + _interval(timeline) <= total:
        yield Problem(code="truncated", message=f"the log ends at step {last} of {total}")
    elif epochs is not None and epoch is not None and epoch < epochs:
        yield Problem(code="truncated", message=f"the log ends in epoch {epoch} of {epochs}")
    elif timeline.epoch_ends_early:
        yield Problem(
            code="truncated",
            message=f"the log ends at step {last} of the {timeline.epoch_steps} of an epoch",
        )
    if form.averaging == "running" and timeline.windows:
        yield Problem(
            code="running-mean",
            message="printed rates are means since an early step, which hide what happens late; "
            "throughput is what the iterations after the warm-up did by themselves",
        )


def _interval(timeline: Timeline) -> float:
    return float(np.median(timeline.windows.iterations())) if len(timeline.windows) else 1


def of_stretches(stretches: Stretches, wait_share: float | None) -> Iterator[Problem]:
    """Look at the rates that were kept."""
    if wait_share is not None and wait_share > DATA_BOUND:
        yield Problem(
            code="data-bound", message=f"{wait_share:.1%} of the time is waiting for data"
        )
    rates, seconds = stretches.rate, stretches.seconds
    median, whole = float(np.median(rates)), float(np.sum(seconds))
    three = (float(np.mean(rates)), median, float(np.sum(stretches.work)) / whole)
    if max(three) > STABLE * min(three):
        worst = int(np.argmax(np.abs(seconds - stretches.work / median)))
        yield Problem(
            code="unstable",
            message=f"mean of rates {three[0]:.6g}, median {median:.6g} and time-weighted rate "
            f"{three[2]:.6g} disagree; most by iterations {stretches.first[worst]:.0f} to "
            f"{stretches.last[worst]:.0f}, at {rates[worst]:.6g} for "
            f"{seconds[worst] / whole:.0%} of the time",
        )
    stalls = rates[stretches.epoch_begins & (median > STALL * rates)]
    if len(stalls):
        yield Problem(
            code="epoch-stalls",
            message=f"{len(stalls)} epochs start slow: the slowest at {min(stalls):.6g}, "
            f"median {median:.6g}",
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
