"""One log to one result: what ``dlperf extract`` says of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.core.run import Problem
from pytest_dlperf.logs import facts, problems, rules, spans
from pytest_dlperf.logs.clean import blocks, lines_with
from pytest_dlperf.logs.records import Reader
from pytest_dlperf.logs.sniff import sniff
from pytest_dlperf.logs.stamp import stamp
from pytest_dlperf.logs.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pytest_dlperf.core.run import Span
    from pytest_dlperf.logs.declare import Format
    from pytest_dlperf.logs.facts import Facts


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What one asks of a log, and what one knows better than it."""

    form: Format | None = None
    rule: str = "time-weighted"
    skip: int = 50
    until: int | None = None
    batch_size_per_device: int | None = None
    world_size: int | None = None
    devices_per_node: int | None = None


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
    #: The raw data behind the numbers, for a judgement.
    spans: tuple[Span, ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return what the JSON shows of a log."""
        values = asdict(self)
        del values["spans"]
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
    form = question.form
    said = facts.Facts()
    timeline: Timeline | None = None
    reader: Reader | None = None
    tail: tuple[bytes, ...] = ()
    for block in stream:
        said.look(block)
        tail = (*tail[-1:], block)
        form = form or sniff(block)
        if form is None:
            continue
        timeline = timeline or Timeline(form)
        reader = reader or Reader(form)
        by_shape = form.by_shape and not rules.needs_stamps(question.rule)
        columns = reader.columns(block) if by_shape else None
        if columns is not None:
            timeline.add_columns(columns)
            continue
        for line in lines_with(block, form.anchors):
            reading = form.parse(line.text)
            if reading is not None:
                timeline.add(reading, line.rank, stamp(line.text))
    said.look_at_end(b"".join(tail))
    named = facts.of_path(path)
    if form is None or timeline is None:
        return _unknown(path)
    return _result(path, form, timeline, said, named, question)


def _unknown(path: str) -> LogResult:
    return LogResult(
        path=path,
        problems=(
            Problem(
                code="unknown-format",
                message="no line is a record of a known format",
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
    found = [*problems.of_facts(said, named), *problems.of_timeline(timeline, form, said)]
    stretches = spans.scaled(
        timeline.windows,
        scope=form.scope,
        world_size=world,
        node_devices=question.devices_per_node or said.node_devices,
        batch_size_per_device=batch,
    )
    selection = rules.named(question.rule)(stretches, question.skip, question.until)
    kept = selection.stretches
    refusal = _refusal(timeline, form, question, scaled=bool(stretches), selection=selection)
    lost = tuple(problems.of_loss(timeline.loss_last))
    found += lost
    loss_last = None if lost else timeline.loss_last
    known = LogResult(
        path=path,
        format=form.name,
        world_size=world,
        batch_size_per_device=batch,
        precision=named.precision or said.precision,
        unit=form.unit,
        loss_last=loss_last,
        whole_run=timeline.whole_run,
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
        iterations=kept[-1].last - kept[0].first + 1,
        throughput=selection.throughput,
        estimates=spans.estimates(kept),
        data_wait_share=wait,
        loss_last=loss_last,
        whole_run=timeline.whole_run,
        problems=(*found, *problems.of_stretches(kept, wait)),
        spans=spans.spans(kept, world or 1),
    )


def _said_batch(form: Format, said: Facts, world: int | None) -> int | None:
    batch = said.batch_size_per_device
    if batch is None or not form.global_batch:
        return batch
    return None if world is None or batch % world else batch // world


def _refusal(
    timeline: Timeline,
    form: Format,
    question: Question,
    *,
    scaled: bool,
    selection: rules.Selection,
) -> tuple[Problem, ...]:
    """Say why no number is given; empty where one is."""
    if form.averaging == "whole":
        return (
            Problem(
                code="insufficient-data",
                message="this format prints one rate of the whole run, from which the warm-up "
                "cannot be taken out",
            ),
        )
    if timeline.windows and not scaled:
        what = {"process": "batch size or world size", "node": "devices of a node"}.get(
            form.scope, "world size"
        )
        return (
            Problem(
                code="unknown-scale",
                message=f"rates are per {form.scope}, and neither the log nor its path says the "
                f"{what}",
            ),
        )
    if few := problems.insufficient(form, timeline, question.skip):
        return (few,)
    if not selection.stretches:
        return (problems.straddling(question.skip, question.until),)
    if selection.throughput is None:
        return (
            Problem(code="insufficient-data", message="two time stamps are not in what is kept"),
        )
    return ()
