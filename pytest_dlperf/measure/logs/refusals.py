"""Why a log gives no number: what is missing, in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs import problems

if TYPE_CHECKING:
    from pytest_dlperf.measure.logs.declare import Format
    from pytest_dlperf.measure.logs.rules import Selection
    from pytest_dlperf.measure.logs.sizes import Sizes
    from pytest_dlperf.measure.logs.spans import Stretches
    from pytest_dlperf.measure.logs.timeline import Timeline


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
    if timeline.iterations < skip + problems.LEAST_ITERATIONS:
        return _insufficient(
            f"{timeline.iterations} iterations are in the log; a number needs {skip} of warm-up "
            f"and {problems.LEAST_ITERATIONS} more"
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
