"""What is odd about a log: problems, each with a stable code and a sentence for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from pytest_dlperf.core.quantity import same_precision
from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs import clocks
from pytest_dlperf.measure.logs.by_clock import FINER
from pytest_dlperf.measure.logs.declare import Format
from pytest_dlperf.measure.logs.parsed_log import ParsedLog
from pytest_dlperf.measure.logs.rules import Selection
from pytest_dlperf.measure.logs.sizes import Sizes, counts_unit
from pytest_dlperf.measure.logs.spans import RateSeries
from pytest_dlperf.measure.logs.timeline import Timeline
from pytest_dlperf.measure.logs.trained import Account

#: So many iterations after the warm-up are a measurement.
LEAST_ITERATIONS: Final = 10
#: The last loss is NaN, or infinite.
LOSS_LOST: Final = "loss-not-finite"
#: Iterations that were measured trained nothing.
NOT_TRAINED: Final = "not-trained"
#: Codes of a training that failed: its speed means nothing, and no number is given.
FAILED: Final = frozenset({LOSS_LOST, NOT_TRAINED})
#: Loss scaling tries a larger scale every 2000 iterations (PyTorch, apex), 1000 (Megatron-LM), or
#: 100, as in DeepSpeed's examples, and then skips one or, with hysteresis, two: up to 2 %. What
#: such an iteration saves is its update alone.
SKIPPED_SHARE: Final = 0.05
SKIPPED_LEAST: Final = 2
#: The rules may differ by such a factor.
STABLE: Final = 1.10
DATA_BOUND: Final = 0.10
#: Speeds are printed with too few digits where they are rounded by more of themselves.
COARSE: Final = 0.05
#: The first window of an epoch stalls if it is so many times slower than the median.
STALL: Final = 1.5
IMPLAUSIBLE: Final = 1.05
#: The options, of commands that read logs, which mend a problem.
_REMEDIES: Final = {
    "unknown-format": "; name its format with --format, or say what a line is with --pattern",
    "insufficient-data": " (--skip, --until)",
    "unknown-scale": " (--batch_size_per_device, --world_size)",
    "per-device": " (--world_size)",
    "one-node": " (--world_size)",
}
_TIME_ALONE: Final = "only the time of an iteration is printed"
_CLOCK_ALONE: Final = "only the clock says how long an iteration took"
_NO_ITERATIONS: Final = "iterations were asked for"
_WHOLE_RUN: Final = "the log has one rate of the whole run"
_SAY_WORK: Final = "A case says it in the marker (work=...)"
#: Codes of a log that is of another training than was declared, or than its path says.
MISMATCHES: Final = frozenset({"world-size-mismatch", "batch-size-mismatch", "precision-mismatch"})


def with_remedy(problem: Problem) -> str:
    """Return the sentence of a problem with the options of a command that mend it."""
    message = problem.message
    if "--pattern" in message or message.startswith((_NO_ITERATIONS, _WHOLE_RUN)):
        return message
    remedy = "" if _SAY_WORK in message else _REMEDIES.get(problem.code, "")
    if message.startswith((_TIME_ALONE, _CLOCK_ALONE)):
        remedy += "; --unit=iterations needs none of it"
    return f"{message}{remedy}"


def refusal(
    parsed: ParsedLog, size: Sizes, selection: Selection, series: RateSeries
) -> tuple[Problem, ...]:
    """Return why the log gives no throughput; empty if it gives one."""
    timeline, fmt = parsed.timeline, parsed.fmt
    if strange := _strange_lines(parsed):
        return strange
    if fmt.averaging == "whole" or (timeline.whole_run and not timeline.windows):
        return _insufficient(
            f"{_WHOLE_RUN}, from which the warm-up cannot be taken out; a log with the progress "
            "bar, or with a rate or a time in each print, has what is needed"
        )
    if timeline.windows and not len(series):
        return _no_rates(parsed, size, series)
    if not timeline.steps:
        no_number = fmt.no_number() if fmt.no_number else ""
        return _insufficient(
            f"no line is a record of the format {fmt.name!r}"
            + (f": {no_number}" if no_number else "")
        )
    skip = parsed.options.skip
    if timeline.iterations < skip + LEAST_ITERATIONS:
        return _insufficient(
            f"{timeline.iterations} iterations are in the log; a number needs {skip} of warm-up "
            f"and {LEAST_ITERATIONS} more"
        )
    if not len(selection.series):
        return _insufficient(_nothing_left(parsed, series))
    if fmt.tick_s and (seconds_needed := _seconds_needed(selection.series, fmt)):
        return _insufficient(
            f"the bar shows whole seconds, and {selection.series.seconds.sum():.3g} s of it were "
            f"measured after the warm-up, where {seconds_needed:.3g} s are needed"
        )
    if selection.throughput is None:
        if not selection.series.knows_work.all():
            return (
                Problem(
                    code="unknown-scale",
                    message="a rate between two time stamps needs the work of an iteration, "
                    "and neither the log nor its path says it",
                ),
            )
        return _insufficient(
            "the steps that the rule takes have no two different time stamps "
            f"({_clock_of(parsed)})"
        )
    return ()


def _seconds_needed(series: RateSeries, fmt: Format) -> float:
    """Return how many seconds a clock of whole ones needs, where fewer were measured; else 0.

    A time between two of its changes is wrong by an iteration at most, or by a second.
    """
    if not series.knows_work.all():
        return 0.0
    seconds = float(series.seconds.sum())
    needed = FINER * min(fmt.tick_s, seconds / float(series.iterations.sum()))
    return needed if seconds < needed * (1 - 1e-6) else 0.0


def _no_rates(parsed: ParsedLog, size: Sizes, series: RateSeries) -> tuple[Problem, ...]:
    """Return why the windows of a log have no rates."""
    if not (parsed.timeline.windows.iterations() > 0).any():
        return _insufficient("what the log prints is of no iteration: its step is the first")
    if parsed.options.in_iterations:
        steps = parsed.fmt.steps_are_work
        why = "counts work and no iterations" if steps else "has rates alone, and no times"
        return _insufficient(f"{_NO_ITERATIONS}, and the format {parsed.fmt.name!r} {why}")
    if parsed.fmt.by_clock and size.global_batch is not None:
        return _insufficient(_nothing_left(parsed, series))
    return (_unknown_scale(parsed, size),)


def _strange_lines(parsed: ParsedLog) -> tuple[Problem, ...]:
    """Return why the lines of a log are not known to be training's."""
    if parsed.fmt.bar:
        return _strange_bars(parsed)
    if not parsed.timeline.ranks.are_unlike:
        return ()
    return _unknown_format(
        "several lines of a step have rates that are more than half apart, and nothing says "
        "which is training's: they are of no ranks that measure one speed; a pattern with "
        "words before its numbers reads training's lines alone"
    )


def _strange_bars(parsed: ParsedLog) -> tuple[Problem, ...]:
    """Return why the bars of a log are not known to be training's."""
    bars, declared = parsed.timeline.bars, parsed.options.fmt
    if bars.is_unsure:
        return _unknown_format(
            "several progress bars are in the log, and nothing in it says which is training's"
        )
    if len(bars.epoch_steps) > 1:
        few, *_, many = sorted(bars.epoch_steps)
        return _unknown_format(
            f"bars of an epoch have {few} steps and {many}: they are not of one training, and "
            "nothing in the log says which is training's"
        )
    if not parsed.timeline.says_training and declared is None:
        return _unknown_format("a progress bar alone does not say that it is of training")
    return ()


def _clock_of(parsed: ParsedLog) -> str:
    """Return in words which clock a log has, or which are looked for."""
    style, fmt = parsed.clock.style, parsed.fmt
    if style is None and fmt.printed_resolution is not None:
        return (fmt.no_number and fmt.no_number()) or "its lines have no time since the begin"
    if style is not None:
        return f"the clock of its lines is {style.name}"
    names = dict.fromkeys(style.name for style in clocks.STYLES)
    return f"its lines have no clock that is known: {', '.join(names)}"


def _unknown_format(message: str) -> tuple[Problem, ...]:
    return (Problem(code="unknown-format", message=message),)


def _insufficient(message: str) -> tuple[Problem, ...]:
    return (Problem(code="insufficient-data", message=message),)


def _nothing_left(parsed: ParsedLog, series: RateSeries) -> str:
    """Return why enough iterations were counted, and none of them measured."""
    timeline, fmt = parsed.timeline, parsed.fmt
    skip, until = parsed.options.skip, parsed.options.last
    if until is not None and len(series) and np.any(series.first > skip):
        return f"no print is wholly within steps {skip + 1} to {until}; print more often"
    if fmt.bar:
        return "the bar shows whole seconds, and after the warm-up no epoch has enough"
    if timeline.coarse:
        return (
            f"its mean times are printed to {fmt.resolution:g} s, too coarse for iterations as "
            "short as these: the rounding would be more than 2.5 % of the rate"
        )
    if fmt.by_clock and not len(series):
        return (
            f"{timeline.iterations} iterations are in the log, of which nothing says how long "
            f"they took: the times of their lines stand still, or go back ({_clock_of(parsed)})"
            if parsed.clock.style is not None
            else f"{timeline.iterations} iterations are in the log, of which nothing says how "
            f"long they took ({_clock_of(parsed)})"
        )
    # The first print may be before an evaluation, or after one that nothing shows.
    if timeline.left_out and (not len(series) or timeline.left_out + 1 >= timeline.steps):
        return "every print has the time of an evaluation in it; print more often"
    no_time = (fmt.no_number() if fmt.no_number else "") or fmt.no_time
    if no_time and not len(series):
        return f"{timeline.iterations} iterations are in the log: {no_time}"
    if not len(series):
        return (
            f"{timeline.iterations} iterations are in the log, and none has a rate or a time that "
            "is a number above 0"
        )
    return (
        f"{timeline.iterations} iterations are in the log, and no print that has a rate is "
        f"wholly after the {skip} of warm-up"
    )


def _unknown_scale(parsed: ParsedLog, size: Sizes) -> Problem:
    fmt = parsed.fmt
    if size.is_unsure:
        return Problem(
            code="unknown-scale",
            message="the path's batch size may be of one device or of all, and the time of an "
            "iteration is that of all",
        )
    if not counts_unit(parsed):
        return Problem(
            code="unknown-scale",
            message=f"{_TIME_ALONE}, and nothing says how many "
            f"{fmt.unit} one has: a batch counts samples. {_SAY_WORK}; where a pattern counts "
            f"{fmt.unit}, the batch is that many",
        )
    columns = parsed.timeline.windows.columns()
    by_rate = not np.isnan(columns["rate"]).all()
    has_batch = by_rate or size.batch_size_per_device is not None
    missing = [
        f"the {word}"
        for word, is_known in (
            ("batch size", has_batch),
            ("world size", size.world_size is not None),
        )
        if not is_known
    ]
    # A node's rate with a world size lacks the devices of a node.
    missing = missing or ["the devices of a node"]
    what = _TIME_ALONE
    if by_rate:
        what = f"rates are per {fmt.scope}"
    elif fmt.by_clock:
        what = f"{_CLOCK_ALONE} ({_clock_of(parsed)})"
    return Problem(
        code="unknown-scale",
        message=f"{what}, and neither the log nor its path says {' and '.join(missing)}",
    )


def path_problems(parsed: ParsedLog, taken: int | None) -> Iterator[Problem]:
    """Compare what a log says with what its path says; ``taken`` is the world size in use."""
    log, path = parsed.log_facts, parsed.path_facts
    world, node, path_world = log.all_devices, log.node_devices, path.world_size
    if log.two_worlds is not None:
        first, second = log.two_worlds
        yield Problem(
            code="several-runs",
            message=f"the log says {first} devices or nodes, and {second} in another place: runs "
            "on both are in it; no number is given: split it where a run starts",
        )
    elif log.two_works is not None:
        first, second = log.two_works
        yield Problem(
            code="several-runs",
            message=f"the log says {first:,} tokens an iteration, and {second:,} in another "
            "place: runs of both are in it; no number is given: split it where a run starts",
        )
    elif log.restarts.word:
        yield Problem(
            code="several-runs",
            message=f"a run starts again in this log ({log.restarts.word[:60]!r} comes twice, "
            "with steps between), and warms up again; no number is given: split it there",
        )
    elif log.restarts.break_word:
        yield Problem(
            code="several-runs",
            message=f"a run was broken off in this log and went on ({log.restarts.break_word!r} "
            "comes between its steps), and warms up again; no number is given: split it there",
        )
    if world is not None and path_world is not None and world != path_world:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {world} devices, its path {path_world}; {taken} was taken",
        )
    elif world is None and node is not None and path_world is not None and path_world % node:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {node} devices a node, its path {path_world} in all",
        )
    elif world is None and log.data_parallel and path_world and path_world % log.data_parallel:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {log.data_parallel} data-parallel devices, its path "
            f"{path_world} in all; {log.data_parallel} was taken",
        )
    if log.precision and path.precision and log.precision != path.precision:
        precisions = {log.precision, path.precision}
        # Words of different teams for one thing
        if precisions not in ({"amp", "fp16"}, {"amp", "bf16"}):
            yield Problem(
                code="precision-mismatch",
                message=f"the log says {log.precision}, its path {path.precision}",
            )


def option_problems(parsed: ParsedLog, batch: float | None) -> Iterator[Problem]:
    """Compare what a log says with the case, or the options, that declare its run.

    ``batch`` is the batch size per device by the log's words, if its lines do not show it.
    """
    log, options = parsed.log_facts, parsed.options
    world, node, declared = log.all_devices, log.node_devices, options.world_size
    if declared is not None and world is not None and world != declared:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {world} devices, {declared} were declared; {declared} was "
            "taken",
        )
    elif declared is not None and world is None and node is not None and declared % node:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {node} devices a node, {declared} in all were declared; "
            f"{declared} was taken",
        )
    declared_batch = options.batch_size_per_device
    if declared_batch is not None and batch is not None and batch != declared_batch:
        yield Problem(
            code="batch-size-mismatch",
            message=f"the log says a batch of {batch:g} a device, {declared_batch} was declared; "
            f"{declared_batch} was taken",
        )
    precision = options.precision
    if precision and log.precision and not same_precision(log.precision, precision):
        yield Problem(
            code="precision-mismatch",
            message=f"the log says {log.precision}, {precision} was declared",
        )


def loss_problems(loss_last: float | None) -> Iterator[Problem]:
    """Return a problem if the last loss of a log is not a finite number."""
    if loss_last is not None and not math.isfinite(loss_last):
        yield Problem(
            code=LOSS_LOST,
            message="the last loss in the log is not a finite number, so its speed means nothing",
        )


def training_problems(account: Account) -> Iterator[Problem]:
    """Return a problem if measured iterations trained nothing: more than loss scaling skips."""
    measured, lost = account.iterations, account.lost
    what = f"{_count_of(lost)} of the {measured} iterations that were measured trained nothing"
    if lost > max(SKIPPED_LEAST, SKIPPED_SHARE * measured):
        yield Problem(
            code=NOT_TRAINED,
            message=f"{what} ({_how(account)}), so their speed means nothing",
        )
    elif account.loss_until is not None:
        yield Problem(
            code=NOT_TRAINED,
            message=f"the log has a loss until iteration {account.loss_until}, and none in the "
            f"{measured} iterations that were measured, so nothing shows that they trained",
        )
    elif lost > 0:
        yield Problem(
            code="steps-skipped",
            message=f"{what} ({_how(account)}), as loss scaling does now and then; the throughput "
            "counts them",
        )


def _how(account: Account) -> str:
    skipped, lost = account.skipped, account.not_finite
    words = [
        *([f"{_count_of(skipped)} skipped"] if skipped else []),
        *([f"{_count_of(lost)} with a loss or gradients that are not finite"] if lost else []),
        *([f"{_count_of(account.zero)} with a loss of 0"] if account.zero else []),
    ]
    return ", ".join(words)


def _count_of(iterations: float) -> str:
    return f"{max(1, round(iterations))}"


def timeline_problems(parsed: ParsedLog) -> Iterator[Problem]:
    """Return what is odd about the course of a log."""
    timeline, fmt = parsed.timeline, parsed.fmt
    if timeline.has_several_writers:
        yield Problem(
            code="several-runs",
            message=f"steps go back {timeline.runs - 1} times in this log and then on beyond: "
            "several ranks write it, one of them is late, and no tag says whose a line is; no "
            "number is given: read the log of one rank, or have the launcher tag lines (torchrun "
            "--tee=3, mpirun --tag-output)",
        )
    elif timeline.runs > 1:
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
            "was resumed, and warms up again; no number is given: split it there",
        )
    if timeline.ranks.repeats and not fmt.bar:
        times = timeline.prints / timeline.steps
        who = (
            "with the same numbers, as by two handlers of one program; taken for one"
            if timeline.ranks.copies == timeline.ranks.repeats
            else f"{fmt.scope} rates of several ranks, taken for one and not added up"
        )
        yield Problem(
            code="duplicate-ranks", message=f"each step is printed {times:.3g} times: {who}"
        )
    if (share := fmt.rounded_share) > COARSE:
        yield Problem(
            code="few-digits",
            message=f"the speeds are printed with so few digits that {share:.0%} of them may be "
            "rounding; where lines have time stamps, a pattern with a step alone reads the clock",
        )
    yield from _truncated(parsed)
    # A bar has many states, and a clock goes on after what was left out.
    if timeline.left_out and not (fmt.bar or fmt.by_clock):
        yield Problem(
            code="left-out",
            message=f"{timeline.left_out} of {timeline.steps} prints have the time of an "
            "evaluation in them, which the log names before each, and were left out",
        )
    if fmt.leaves_out and timeline.windows:
        yield Problem(
            code="left-out",
            message=f"the times of the format {fmt.name!r} leave out {fmt.leaves_out}, so that "
            "the rate may be higher than that of the training",
        )
    if fmt.averaging == "running" and timeline.windows:
        yield Problem(
            code="running-mean",
            message="printed rates are means since an early step, which hide what happens late; "
            "throughput is what the iterations after the warm-up did by themselves",
        )


def _truncated(parsed: ParsedLog) -> Iterator[Problem]:
    """Return how the log shows that its end is missing."""
    timeline, killed_by = parsed.timeline, parsed.log_facts.killed_by
    last, total = timeline.last_step, timeline.total
    epoch, epochs = timeline.last_epoch, timeline.epochs
    if killed_by:
        yield Problem(code="truncated", message=f"the run was broken off: {killed_by!r}")
    elif last is not None and total is not None and last + _interval(timeline) <= total:
        yield Problem(code="truncated", message=f"the log ends at step {last} of {total}")
    elif epochs is not None and epoch is not None and epoch < epochs:
        yield Problem(code="truncated", message=f"the log ends in epoch {epoch} of {epochs}")
    elif timeline.epoch_ends_early:
        yield Problem(
            code="truncated",
            message=f"the log ends at step {last} of the {timeline.epoch_steps} of an epoch",
        )
    elif _ends_within_record(parsed):
        yield Problem(
            code="truncated",
            message="the log ends within a line, whose numbers may be cut: that line was not read",
        )


def _ends_within_record(parsed: ParsedLog) -> bool:
    """Return whether the last line, which does not end, is one of records; bars never end them."""
    line, fmt = parsed.log_facts.cut_line + b"\n", parsed.fmt
    return not fmt.bar and len(line) > 1 and any(anchor in line for anchor in fmt.anchors)


def _interval(timeline: Timeline) -> float:
    return float(np.median(timeline.windows.iterations())) if len(timeline.windows) else 1


def series_problems(series: RateSeries, wait_share: float | None) -> Iterator[Problem]:
    """Return what is odd about the rates that the throughput is made from."""
    if wait_share is not None and wait_share > DATA_BOUND:
        yield Problem(
            code="data-bound", message=f"{wait_share:.1%} of the time is waiting for data"
        )
    rates, seconds = series.rate, series.seconds
    median, whole = float(np.median(rates)), float(np.sum(seconds))
    three = (float(np.mean(rates)), median, float(np.sum(series.work)) / whole)
    if max(three) > STABLE * min(three):
        worst = int(np.argmax(np.abs(seconds - series.work / median)))
        yield Problem(
            code="unstable",
            message=f"mean of rates {three[0]:.6g}, median {median:.6g} and time-weighted rate "
            f"{three[2]:.6g} disagree; most by iterations {series.first[worst]:.0f} to "
            f"{series.last[worst]:.0f}, at {rates[worst]:.6g} for "
            f"{seconds[worst] / whole:.0%} of the time",
        )
    stalls = rates[series.epoch_begins & (median > STALL * rates)]
    if len(stalls):
        yield Problem(
            code="epoch-stalls",
            message=f"{len(stalls)} epochs start slow: the slowest at {min(stalls):.6g}, "
            f"median {median:.6g}",
        )


def implausible(model: str, medians: Mapping[str, tuple[int, float]]) -> Iterator[Problem]:
    """Return each pair of layouts of a model whose speedup is above the number of devices."""
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
