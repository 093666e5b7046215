"""Extract the throughput of one training log, and what is odd about the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.log_pattern import LogPattern
from pytest_dlperf.core.run import Problem, Span
from pytest_dlperf.measure.logs import (
    clock_check,
    parsed_log,
    pauses,
    problems,
    rules,
    sampled,
    sizes,
    spans,
    stated_work,
    turns,
    unread,
    unread_prints,
    whole_seconds,
)
from pytest_dlperf.measure.logs.clean import BLOCK_BYTES, blocks
from pytest_dlperf.measure.logs.parsed_log import ParsedLog, ParseOptions
from pytest_dlperf.measure.logs.registry import ITERATIONS
from pytest_dlperf.measure.logs.trained import Account
from pytest_dlperf.measure.logs.user_pattern import format_of_pattern


@dataclass(frozen=True, kw_only=True, slots=True)
class LogResult:
    """The throughput of one log and all that is known of its run; None is unknown."""

    path: str
    format: str | None = None
    world_size: int | None = None
    #: Where it is from: ``option``, ``log``, ``path``, or ``lines`` by their rate and time.
    world_size_from: str | None = None
    batch_size_per_device: int | None = None
    batch_size_from: str | None = None
    precision: str | None = None
    unit: str | None = None
    #: How many were measured, without the warm-up.
    iterations: int = 0
    throughput: float | None = None
    estimates: spans.Estimates | None = None
    #: Memory, TFLOP/s, MFU and the norm of the gradients, where the log prints one of them.
    figures: spans.Figures | None = None
    #: Median, by the time stamps of its lines; None if they say nothing.
    iterations_per_s_by_clock: float | None = None
    data_wait_share: float | None = None
    loss_last: float | None = None
    #: The rate of the whole run that the program itself prints, with the warm-up in it.
    whole_run: float | None = None
    problems: tuple[Problem, ...] = ()
    #: All windows of the log, with the warm-up.
    series: spans.RateSeries | None = field(default=None, repr=False)
    #: The windows that the numbers were taken from.
    kept: spans.RateSeries | None = field(default=None, repr=False)
    #: Of an iteration of all devices in the log's own unit, where the answer is in iterations;
    #: else the samples that the log's settings say, where its rates do not show them.
    stated_work: float | None = field(default=None, repr=False)
    #: Tokens of a sequence, by the log's settings.
    sequence_length: int | None = field(default=None, repr=False)
    #: Pixels of an image's longer side, by the log's settings.
    image_size: int | None = field(default=None, repr=False)
    #: How the log of a run in turns was cut, which ``kept`` is what was left by.
    cut: turns.Cut | None = field(default=None, repr=False)

    @property
    def has_failed(self) -> bool:
        """Whether the log says that its training failed, so that its speed means nothing."""
        return any(problem.code in problems.FAILED for problem in self.problems)

    @property
    def setup(self) -> str:
        """Format, precision, batch size and devices: one training's logs have the same."""
        return (
            f"{self.format}-{self.precision or 'unknown precision'}-"
            f"bs{self.batch_size_per_device or '?'}-{self.world_size or '?'} devices"
        )

    @property
    def spans(self) -> tuple[Span, ...]:
        """The raw data of the throughput, for a judgement."""
        return () if self.kept is None else spans.spans(self.kept, self.world_size or 1)

    @property
    def iteration_work(self) -> float | None:
        """Work of an iteration of all devices, in the unit; None if unknown, or if it varies."""
        return None if self.kept is None else spans.iteration_work(self.kept)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of a log, as ``dlperf extract --json`` prints it."""
        values = asdict(replace(self, series=None, kept=None, cut=None))
        for name in ("series", "kept", "cut", "stated_work", "sequence_length", "image_size"):
            del values[name]
        return values


def extract(
    path: Path, options: ParseOptions, log_turns: Sequence[turns.LogTurn] = ()
) -> LogResult:
    """Read a log; raise ``UsageError`` if the file cannot be read.

    With turns only what lies within one of them counts.
    """
    try:
        with path.open("rb") as stream:
            return extract_stream(stream, str(path), options, log_turns=log_turns)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def extract_stream(
    stream: BinaryIO,
    path: str,
    options: ParseOptions,
    block_bytes: int = BLOCK_BYTES,
    *,
    log_turns: Sequence[turns.LogTurn] = (),
) -> LogResult:
    """Read a log from a stream; ``path`` is searched for words, and never opened.

    A log that shows only at its end which rank or progress bar is to be counted is read again. If
    the stream cannot be read again, such a log may give no throughput.
    """
    choice = None
    parsed = parsed_log.read([blocks(stream, block_bytes)], path, options)
    if parsed is not None and parsed.better_choice is not None and stream.seekable():
        stream.seek(0)
        choice = parsed.better_choice
        parsed = parsed_log.read([blocks(stream, block_bytes)], path, options, choice)
    if parsed is None:
        return LogResult(path=path, problems=(_unread(stream, path, options, block_bytes),))
    if log_turns:
        # The first turns have too few lines to show the format
        stream.seek(0)
        with_format = replace(options, fmt=parsed.fmt)
        cut = parsed_log.read(turns.stretches(stream, log_turns), path, with_format, choice)
        assert cut is not None
        parsed = replace(cut, options=options)

    def prints() -> Iterable[pauses.Print]:
        stream.seek(0)
        return pauses.prints(blocks(stream, block_bytes), parsed.fmt)

    return _result(parsed, log_turns, prints if stream.seekable() else None)


def _unread(stream: BinaryIO, path: str, options: ParseOptions, block_bytes: int) -> Problem:
    """Return why no line of a log is a record."""
    if not stream.seekable():
        return Problem(
            code="unknown-format",
            message="no line is a record of a known format that has a number for its rate or time",
        )
    stream.seek(0)
    head = stream.read(unread.HEAD_BYTES)

    def all_blocks() -> Iterable[bytes]:
        stream.seek(0)
        return blocks(stream, block_bytes)

    def reading_by(declared: LogPattern, whole: bool) -> unread.Reading:
        if not declared.has_rate and not declared.unit:
            declared = replace(declared, unit=ITERATIONS)  # the batch is not at issue
        tried = replace(
            options,
            fmt=format_of_pattern(declared),
            # A bar's rate of iterations is one by itself
            in_iterations=options.in_iterations and declared.unit != ITERATIONS,
            skip=min(options.skip, unread.SKIP),
            until=None,
            rule="time-weighted",
        )
        most = None if whole else unread.MOST_BLOCKS
        parsed = parsed_log.read([islice(all_blocks(), most)], path, tried)
        if parsed is None:
            return unread.Reading(())

        def prints() -> Iterable[pauses.Print]:
            return pauses.prints(islice(all_blocks(), most), parsed.fmt)

        result = _result(parsed, (), prints)
        means = result.estimates
        rates = () if means is None else (means.time_weighted, means.median_of_rates)
        return unread.Reading(result.problems, rates)

    return unread.explain(head, all_blocks, reading_by)


def _result(
    parsed: ParsedLog,
    log_turns: Sequence[turns.LogTurn],
    prints: Callable[[], Iterable[pauses.Print]] | None,
) -> LogResult:
    """Return the result of a log; ``prints`` reads its prints once more, where it can be."""
    size = sizes.sizes(parsed)
    options = parsed.options
    series = _series(parsed, size)
    rule = rules.named(options.rule)
    selection = measured = rule(series, options.skip, options.until)
    if log_turns:
        inside = series.where(turns.within_turns(series, parsed.ends, log_turns))
        # What is printed may be a mean with records before the turn
        inside = replace(inside, printed_rate=inside.rate)
        selection = rule(inside, options.skip, options.until)
    sample = sampled.Sample(selection=selection)
    left_out: pauses.LeftOut | None = None

    @cache
    def first_paused() -> list[bool]:
        assert prints is not None
        return pauses.follow_pauses(series, prints(), parsed.fmt)

    def paused(selected: spans.RateSeries, *, unsearched: bool) -> spans.Flags:
        flags = first_paused()
        flags = flags + [unsearched] * (len(series) - len(flags))
        return np.array(flags, dtype=bool)[np.isin(series.first, selected.first)]

    if options.rule == "time-weighted" and not log_turns:
        if prints is not None and pauses.may_be_in(selection.series):
            flags = paused(selection.series, unsearched=False)
            selection, left_out = pauses.selection_without_pauses(selection, flags)
        with_pauses = None if left_out is None else left_out.rate_with
        sample = sampled.sample_of(selection, parsed.fmt, with_pauses)
    selection = sample.selection
    unit = f"{parsed.fmt.unit}/device" if size.is_of_one_device else parsed.fmt.unit
    checked = clock_check.ClockCheck()
    if not log_turns:  # a clock goes on while a program is frozen
        checked = clock_check.check(
            selection.series,
            parsed.clock,
            parsed.fmt,
            work=clock_check.Work(
                unit=unit,
                batch=size.global_batch,
                stated=[*stated_work.stated(parsed, size)],
            ),
            paused=(
                None if prints is None else partial(paused, selection.series, unsearched=True)
            ),
        )
    refusal = problems.refusal(parsed, size, selection, series) or (
        *sizes.refusal(parsed, size),
        *unread_prints.refusal(parsed, selection.series),
        *sampled.refusal(sample),
        *clock_check.refusal(checked, options.rule),
    )
    lost = tuple(problems.loss_problems(parsed.timeline.loss_last))
    training = (
        () if refusal else tuple(problems.training_problems(_account(parsed, selection.series)))
    )
    stated = (
        *problems.path_problems(parsed, size.world_size),
        *size.problems,
        *problems.option_problems(parsed, size.batch_by_words),
        *problems.timeline_problems(parsed),
        *lost,
        *training,
    )
    result = LogResult(
        path=parsed.path,
        format=parsed.fmt.name,
        world_size=size.world_size,
        world_size_from=size.world_size_from,
        batch_size_per_device=size.batch_size_per_device,
        batch_size_from=size.batch_size_from,
        precision=parsed.path_facts.precision or parsed.log_facts.precision,
        unit=unit,
        stated_work=_stated_work(parsed),
        sequence_length=parsed.log_facts.sequence_length,
        image_size=parsed.log_facts.image_size,
        loss_last=None if lost else parsed.timeline.loss_last,
        whole_run=None if log_turns else parsed.timeline.whole_run,
        cut=(
            turns.cut_of(
                measured.series,
                selection.series,
                parsed.ends,
                log_turns,
                is_running=parsed.fmt.averaging == "running",
            )
            if log_turns and len(measured.series)
            else None
        ),
        series=series,
        problems=(*stated, *refusal),
    )
    if refusal or result.has_failed or parsed.has_several_runs:
        return result
    kept = selection.series
    if parsed.fmt.tick_s and options.rule == "time-weighted" and not log_turns:
        kept = whole_seconds.joined(kept, parsed.fmt.tick_s)
    wait_share = spans.data_wait_share(kept)
    return replace(
        result,
        iterations=int(kept.last[-1] - kept.first[0]) + 1,
        throughput=selection.throughput,
        estimates=(
            spans.estimates(kept)
            if sample.rate_with_slow is None
            else replace(spans.estimates(kept), time_weighted=sample.rate_with_slow)
        ),
        figures=spans.figures(kept),
        iterations_per_s_by_clock=checked.iterations_per_s,
        data_wait_share=wait_share,
        problems=(
            *stated,
            *(() if left_out is None else (left_out.problem,)),
            *pauses.left_out_within(
                parsed.timeline.bars.validated_within,
                selection.series,
                options.skip,
                options.last or parsed.timeline.iterations,
            ),
            *unread_prints.problems(parsed, selection.series),
            *sampled.problems(sample),
            *clock_check.problems(checked, options.rule),
            *problems.series_problems(kept, wait_share),
        ),
        kept=kept,
    )


def _series(parsed: ParsedLog, size: sizes.Sizes) -> spans.RateSeries:
    """Return all windows of a log, scaled by its sizes."""
    options = parsed.options
    node_devices = options.devices_per_node or parsed.log_facts.node_devices
    return spans.scaled(
        parsed.timeline.windows,
        factor=(
            None
            if options.in_iterations
            else 1.0
            if size.is_of_one_device
            else spans.factor_of(parsed.fmt.scope, size.world_size, node_devices, options.split)
        ),
        batch=size.global_batch,
        varies=parsed.fmt.unit == "tokens",
        clock=parsed.clock,
        fmt=parsed.fmt,
    )


def _stated_work(parsed: ParsedLog) -> float | None:
    """Return the work of an iteration by the log, where the answer is not in its unit."""
    log = parsed.log_facts
    if parsed.fmt.unit != ITERATIONS:
        return log.settings_batch or (log.update_batch if parsed.fmt.unit == "tokens" else None)
    work = log.iteration_tokens or log.update_batch or log.event_batch
    if work is not None or parsed.own_unit == ITERATIONS:
        return work
    own = replace(
        parsed,
        fmt=replace(parsed.fmt, unit=parsed.own_unit),
        options=replace(parsed.options, in_iterations=False),
    )
    return spans.iteration_work(_series(own, sizes.sizes(own)))


def _account(parsed: ParsedLog, kept: spans.RateSeries) -> Account:
    """Return what the log says of the iterations from the first window kept to the last."""
    return parsed.timeline.untrained.account(float(kept.first[0]), float(kept.last[-1]))
