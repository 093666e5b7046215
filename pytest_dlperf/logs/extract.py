"""One log to one result: what ``dlperf extract`` says of it."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.run import Problem
from pytest_dlperf.logs import declared, facts, problems, rules, spans
from pytest_dlperf.logs.clean import Sieve, blocks, lines_with
from pytest_dlperf.logs.records import Reader
from pytest_dlperf.logs.sniff import sniff
from pytest_dlperf.logs.stamp import stamp
from pytest_dlperf.logs.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pytest_dlperf.core.run import Span
    from pytest_dlperf.logs.declare import Format
    from pytest_dlperf.logs.facts import Facts


_UNSURE: Final = Problem(
    code="unknown-format",
    message="a progress bar alone does not say what it counts; if this is training, name the "
    "format with --format",
)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class LogResult:
    """What a log gave; None is unknown or not to be had."""

    path: str
    format: str | None = None
    world_size: int | None = None
    batch_size_per_device: int | None = None
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
            return of_blocks(blocks(stream), path=str(path), question=question)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def of_blocks(stream: Iterable[bytes], *, path: str, question: Question) -> LogResult:
    """Read a log from plain blocks."""
    said = facts.Facts()
    form, stream = _begin(_heard(stream, said), question.form, said)
    named = facts.of_path(path)
    if form is None:
        return _unknown(path)
    timeline, reader = Timeline(form), Reader(form)
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
    return _result(path, form, timeline, said, named, question)


def _heard(stream: Iterable[bytes], said: Facts) -> Iterator[bytes]:
    """Pass the blocks on, and take in how the log ends."""
    tail: tuple[bytes, ...] = ()
    for block in stream:
        tail = (*tail[-1:], block)
        yield block
    said.look_at_end(b"".join(tail))


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
            return form, itertools.chain([block], stream)
    return known, ()


def _unknown(path: str) -> LogResult:
    return LogResult(
        path=path,
        problems=(
            Problem(
                code="unknown-format",
                message="no line is a record of a known format; name it with --format, or say "
                "what a line is with --pattern",
            ),
        ),
    )


def _result(
    path: str, form: Format, timeline: Timeline, said: Facts, named: Facts, question: Question
) -> LogResult:
    world = question.world_size or said.world_size or named.world_size or said.node_devices
    batch = (
        question.batch_size_per_device
        or _said_batch(form, said, world)
        or named.batch_size_per_device
    )
    found = [
        *problems.of_facts(said, named, world),
        *declared.of_question(said, _said_batch(form, said, said.world_size or world), question),
        *problems.of_timeline(timeline, form, said),
    ]
    stretches = spans.scaled(
        timeline.windows,
        scope=form.scope,
        world_size=world,
        node_devices=said.node_devices,
        batch_size_per_device=batch,
    )
    selection = rules.named(question.rule)(stretches, question.skip, question.until)
    kept = selection.stretches
    sure = not form.last_resort or timeline.says_training or question.form is not None
    refusal = (
        _refusal(timeline, form, question.skip, len(stretches) > 0, selection)
        if sure
        else (_UNSURE,)
    )
    known = LogResult(
        path=path,
        format=form.name,
        world_size=world,
        batch_size_per_device=batch,
        precision=named.precision or said.precision,
        unit=form.unit,
        loss_last=timeline.loss_last,
        whole_run=timeline.whole_run,
        stretches=stretches,
        problems=(*found, *refusal),
    )
    if refusal or timeline.runs > 1:
        return known
    wait = spans.data_wait_share(kept)
    return LogResult(
        path=known.path,
        format=known.format,
        world_size=world,
        batch_size_per_device=batch,
        precision=known.precision,
        unit=form.unit,
        iterations=int(kept.last[-1] - kept.first[0]) + 1,
        throughput=selection.throughput,
        estimates=spans.estimates(kept),
        data_wait_share=wait,
        loss_last=timeline.loss_last,
        whole_run=timeline.whole_run,
        stretches=stretches,
        problems=(*found, *problems.of_stretches(kept, wait)),
        kept=kept,
    )


def _said_batch(form: Format, said: Facts, world: int | None) -> int | None:
    batch = said.batch_size_per_device
    if batch is None or not form.global_batch:
        return batch
    return None if world is None or batch % world else batch // world


def _refusal(
    timeline: Timeline, form: Format, skip: int, scaled: bool, selection: rules.Selection
) -> tuple[Problem, ...]:
    """Say why no number is given; empty where one is."""
    if form.averaging == "whole" or (timeline.whole_run and not timeline.windows):
        return (
            Problem(
                code="insufficient-data",
                message="the log has one rate of the whole run, from which the warm-up cannot be "
                "taken out",
            ),
        )
    if timeline.windows and not scaled:
        by_time = form.scope in {"process", "global"}
        what = "batch size or world size" if by_time else "world size"
        return (
            Problem(
                code="unknown-scale",
                message=f"rates are per {form.scope}, and neither the log nor its path says the "
                f"{what} (--batch_size_per_device, --world_size)",
            ),
        )
    enough = timeline.iterations >= skip + problems.LEAST_ITERATIONS
    if form.bar and enough and not len(selection.stretches):
        return (
            Problem(
                code="insufficient-data",
                message="the bar shows whole seconds, and after the warm-up no epoch has enough",
            ),
        )
    if not enough or not len(selection.stretches):
        return (problems.insufficient(timeline.iterations, skip),)
    if selection.throughput is None:
        return (
            Problem(code="insufficient-data", message="two time stamps are not in what is kept"),
        )
    return ()
