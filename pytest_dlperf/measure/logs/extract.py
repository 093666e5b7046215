"""One log to one result: what ``dlperf extract`` says of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.run import Problem, Span
from pytest_dlperf.measure.logs import facts, problems, rules, sizes, spans
from pytest_dlperf.measure.logs.clean import Sieve, blocks, lines_with, stamp
from pytest_dlperf.measure.logs.declare import Format
from pytest_dlperf.measure.logs.facts import Facts
from pytest_dlperf.measure.logs.records import Reader
from pytest_dlperf.measure.logs.registry import sniff
from pytest_dlperf.measure.logs.timeline import Timeline

_UNSURE: Final = Problem(
    code="unknown-format",
    message="a progress bar alone does not say what it counts; if this is training, name the "
    "format",
)


_TWO_BARS: Final = Problem(
    code="unknown-format",
    message="several progress bars are in the log, and nothing in it says which is training's",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """Which lines of a log are counted, where that is known before it is read."""

    lead: int | None = None
    bar_total: int | None = None


_ANY: Final = Counted()


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What one asks of a log, and what one knows better than it."""

    form: Format | None = None
    rule: str = "time-weighted"
    skip: int = 50
    until: int | None = None
    batch_size_per_device: int | None = None
    world_size: int | None = None
    #: Only compared with what the log says.
    precision: str | None = None
    devices_per_node: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class LogResult:
    """What a log gave; None is unknown or not to be had."""

    path: str
    format: str | None = None
    world_size: int | None = None
    #: Who says it: ``option``, ``log``, ``path``, or ``lines`` by their rate and time.
    world_size_from: str | None = None
    batch_size_per_device: int | None = None
    batch_size_from: str | None = None
    precision: str | None = None
    unit: str | None = None
    #: How many were measured, warm-up left out.
    iterations: int = 0
    throughput: float | None = None
    estimates: spans.Estimates | None = None
    data_wait_share: float | None = None
    loss_last: float | None = None
    #: The whole run by the program's own account, warm-up and all.
    whole_run: float | None = None
    problems: tuple[Problem, ...] = ()
    #: All that the log tells in global terms, warm-up and all.
    stretches: spans.Stretches | None = field(default=None, repr=False)
    #: What of it the numbers were taken from.
    kept: spans.Stretches | None = field(default=None, repr=False)

    @property
    def spans(self) -> tuple[Span, ...]:
        """The raw data behind the numbers, for a judgement."""
        return () if self.kept is None else spans.spans(self.kept, self.world_size or 1)

    def to_json(self) -> dict[str, Any]:
        """Return what the JSON shows of a log."""
        values = asdict(replace(self, stretches=None, kept=None))
        del values["stretches"], values["kept"]
        return values


def extract(path: Path, question: Question) -> LogResult:
    """Read a log; raise ``UsageError`` where the file cannot be read."""
    try:
        with path.open("rb") as stream:
            result, better = _of_blocks(blocks(stream), str(path), question)
            if better is not None and stream.seekable():
                stream.seek(0)
                result, _ = _of_blocks(blocks(stream), str(path), question, better)
            return result
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def of_blocks(stream: Iterable[bytes], *, path: str, question: Question) -> LogResult:
    """Read a log from plain blocks."""
    return _of_blocks(stream, path, question)[0]


def _of_blocks(
    stream: Iterable[bytes], path: str, question: Question, counted: Counted = _ANY
) -> tuple[LogResult, Counted | None]:
    """Return what a log gave by what was counted, and what should have been; None: the same."""
    said = facts.Facts()
    form, stream = _begin(_heard(stream, said), question.form, said)
    named = facts.of_path(path)
    if form is None:
        return _unknown(path), None
    timeline, reader = Timeline(form, counted.lead, counted.bar_total), Reader(form)
    by_shape = form.by_shape and not rules.needs_stamps(question.rule)
    for text in Sieve(form.anchors).texts(stream):
        columns = reader.columns(text) if by_shape else None
        if columns is not None:
            timeline.add_columns(columns)
            continue
        for line in lines_with(text, form.anchors):
            reading = form.parse(line.text)
            if reading is not None:
                timeline.add(reading, line.rank, stamp(line.text))
    return _result(path, form, timeline, said, named, question), _better(timeline)


def _better(timeline: Timeline) -> Counted | None:
    """Return what should have been counted: only its end tells it of some logs."""
    lead = timeline.ranks.better_lead
    total = timeline.bars.training if timeline.bars.is_unsure else None
    return None if lead is None and total is None else Counted(lead=lead, bar_total=total)


def _heard(stream: Iterable[bytes], said: Facts) -> Iterator[bytes]:
    """Pass the blocks on, keep how the log ends, and look for another world size in each."""
    for block in stream:
        said.tail = (said.tail + block if len(block) < facts.TAIL_BYTES else block)[
            -facts.TAIL_BYTES :
        ]
        said.look_again(block)
        said.restarts.look(block)
        yield block


def _begin(
    stream: Iterator[bytes], known: Format | None, said: Facts
) -> tuple[Format | None, Iterable[bytes]]:
    """Return the format, and the blocks from the first with a record on.

    Programs tell their configuration before they train: later blocks are not searched for it.
    """
    for block in stream:
        said.look(block)
        form = known or sniff(block)
        if form is not None and any(anchor in block for anchor in form.anchors):
            said.restarts.begin(form.anchors, block)
            return form, itertools.chain([block], stream)
    return known, ()


def _unknown(path: str) -> LogResult:
    return LogResult(
        path=path,
        problems=(
            Problem(
                code="unknown-format",
                message="no line is a record of a known format that has a number for its rate or "
                "time",
            ),
        ),
    )


def _result(
    path: str, form: Format, timeline: Timeline, said: Facts, named: Facts, question: Question
) -> LogResult:
    said.look_at_end(form.anchors)
    size = sizes.sizes(
        form,
        timeline.windows,
        said=said,
        named=named,
        path=path,
        asked_world=question.world_size,
        asked_batch=question.batch_size_per_device,
    )
    stretches = spans.scaled(
        timeline.windows,
        scope=form.scope,
        world_size=size.world_size,
        node_devices=question.devices_per_node or said.node_devices,
        batch=size.global_batch,
        varies=form.unit == "tokens",
    )
    selection = rules.named(question.rule)(stretches, question.skip, question.until)
    kept = selection.stretches
    by_label = question.rule in rules.BY_LABEL
    until = rules.last_step(question.until) if by_label else question.until
    sure = not form.last_resort or timeline.says_training or question.form is not None
    if timeline.bars.is_unsure:
        refusal: tuple[Problem, ...] = (_TWO_BARS,)
    elif sure:
        refusal = problems.refusal(
            timeline, form, size, selection, stretches, skip=question.skip, until=until
        )
    else:
        refusal = (_UNSURE,)
    found = (
        *problems.of_facts(said, named, size.world_size),
        *size.problems,
        *sizes.of_question(said, size.batch_by_words, question),
        *problems.of_timeline(timeline, form, said),
    )
    lost = tuple(problems.of_loss(timeline.loss_last))
    found += lost
    known = LogResult(
        path=path,
        format=form.name,
        world_size=size.world_size,
        world_size_from=size.world_size_from,
        batch_size_per_device=size.batch_size_per_device,
        batch_size_from=size.batch_size_from,
        precision=named.precision or said.precision,
        unit=form.unit,
        loss_last=None if lost else timeline.loss_last,
        whole_run=timeline.whole_run,
        stretches=stretches,
        problems=(*found, *refusal),
    )
    several = timeline.several_runs or said.two_worlds is not None or said.restarts.word
    if refusal or several:
        return known
    wait = spans.data_wait_share(kept)
    return replace(
        known,
        iterations=int(kept.last[-1] - kept.first[0]) + 1,
        throughput=selection.throughput,
        estimates=spans.estimates(kept),
        data_wait_share=wait,
        problems=(*found, *problems.of_stretches(kept, wait)),
        kept=kept,
    )
