"""World size and batch of a log, from whoever says them; and whether they agree with its lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from pytest_dlperf.core.quantity import same_precision
from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs.declare import Format
from pytest_dlperf.measure.logs.facts import Facts
from pytest_dlperf.measure.logs.path_words import is_laid_out
from pytest_dlperf.measure.logs.windows import Windows

if TYPE_CHECKING:
    from pytest_dlperf.measure.logs.extract import Question


#: Codes of a log that is of another training than was declared, or than its path says.
MISMATCHES: Final = frozenset({"world-size-mismatch", "batch-size-mismatch", "precision-mismatch"})


def of_question(said: Facts, batch: float | None, question: Question) -> Iterator[Problem]:
    """Compare what a log says with the case, or the options, that declare its run.

    ``batch`` is the batch size per device that its words say, where its lines do not tell it.
    """
    world, node, asked = said.all_devices, said.node_devices, question.world_size
    if asked is not None and world is not None and world != asked:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {world} devices, {asked} were declared; {asked} was taken",
        )
    elif asked is not None and world is None and node is not None and asked % node:
        yield Problem(
            code="world-size-mismatch",
            message=f"the log says {node} devices a node, {asked} in all were declared; {asked} "
            "was taken",
        )
    wanted = question.batch_size_per_device
    if wanted is not None and batch is not None and batch != wanted:
        yield Problem(
            code="batch-size-mismatch",
            message=f"the log says a batch of {batch:g} a device, {wanted} was declared; {wanted} "
            "was taken",
        )
    precision = question.precision
    if precision and said.precision and not same_precision(said.precision, precision):
        yield Problem(
            code="precision-mismatch",
            message=f"the log says {said.precision}, {precision} was declared",
        )


#: Who said it; ``lines`` are the records themselves, by their rate and time.
Source = Literal["option", "log", "path", "lines"]
#: Rate times seconds may differ from the batch by so much, of rounding.
_ROUNDING: Final = 0.10
#: Such a product is shown as a batch where it is as near to a whole number.
_WHOLE: Final = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """What scales a log; None is unknown."""

    world_size: int | None = None
    world_size_from: Source | None = None
    batch_size_per_device: int | None = None
    batch_size_from: Source | None = None
    #: Work of an iteration of all devices.
    global_batch: float | None = None
    #: The path names a batch that may be of one device or of all.
    is_unsure: bool = False
    #: Batch of a device by the log's words alone; None where its lines tell it as well.
    batch_by_words: float | None = None
    problems: tuple[Problem, ...] = ()


def sizes(
    form: Format,
    windows: Windows,
    *,
    said: Facts,
    named: Facts,
    path: str,
    asked_world: int | None,
    asked_batch: int | None,
) -> Sizes:
    """Return the sizes: options go before the log's words, those before the path's."""
    world, world_from, odd = _world(said, named, asked_world)
    unsure = _is_unsure(form, named, path, world) and not (asked_batch or said.batch_size)
    batch: float | None = asked_batch
    source: Source | None = "option" if asked_batch else None
    of_log = _of_log(form, said, world)
    if batch is None and of_log is not None:
        batch, source = of_log, "log"
    if batch is None and named.batch_size is not None and not unsure:
        batch, source = named.batch_size, "path"
    lines = _of_lines(form, windows, world)
    if lines is not None and (batch is None or abs(lines / batch - 1) > _ROUNDING):
        if batch is not None:
            odd = (*odd, _mismatch(batch, source, lines))
        if source != "option":
            batch, source = lines, "lines"
    whole = batch is not None and abs(batch - round(batch)) <= _WHOLE * batch
    if batch is not None and whole:
        batch = float(round(batch))
    return Sizes(
        world_size=world,
        world_size_from=world_from,
        batch_size_per_device=int(batch) if batch and whole else None,
        batch_size_from=source if whole else None,
        global_batch=batch * world if batch and world else None,
        is_unsure=unsure and batch is None,
        batch_by_words=of_log if lines is None else None,
        problems=odd,
    )


def _world(
    said: Facts, named: Facts, asked: int | None
) -> tuple[int | None, Source | None, tuple[Problem, ...]]:
    if asked or said.all_devices:
        return asked or said.all_devices, "option" if asked else "log", ()
    ways = said.data_parallel
    if named.world_size and (ways is None or named.world_size % ways == 0):
        return named.world_size, "path", ()
    if ways is not None:
        return ways, "log", ()
    node = said.node_devices
    odd = Problem(
        code="one-node",
        message=f"the log names {node} devices of a node, and neither it nor its path says how "
        "many nodes; one was taken (--world_size)",
    )
    return (None, None, ()) if node is None else (node, "log", (odd,))


def _of_log(form: Format, said: Facts, world: int | None) -> float | None:
    """Return the batch of a device by the log's words, a part of one where devices share it."""
    if said.update_batch is not None:
        return None if world is None else said.update_batch / world
    if said.batch_size is None or form.batch_of == "device" or said.per_replica:
        return said.batch_size
    devices = world
    if form.batch_of == "node" and said.node_devices is not None:
        devices = said.node_devices
    return None if devices is None else said.batch_size / devices


def _is_unsure(form: Format, named: Facts, path: str, world: int | None) -> bool:
    """Return whether a path's batch may be of one device or of all, and it matters which."""
    one_process = form.scope == "process" and form.batch_of != "device"
    return one_process and named.batch_size is not None and world != 1 and not is_laid_out(path)


def _of_lines(form: Format, windows: Windows, world: int | None) -> float | None:
    """Return the batch of a device by rate and seconds of the lines, where they have both."""
    devices = {"device": 1, "global": world}.get(form.scope)
    if form.unit == "tokens" or devices is None:
        return None
    columns = windows.columns()
    products = columns["rate"] * columns["seconds_each"]
    products = products[np.isfinite(products)]
    return float(np.median(products)) / devices if len(products) else None


def _mismatch(batch: float, source: Source | None, lines: float) -> Problem:
    who = {"option": "--batch_size_per_device", "path": "the path"}.get(source or "", "the log")
    return Problem(
        code="batch-size-mismatch",
        message=f"{who} says a batch of {batch:g} a device; rate times seconds of the lines is "
        f"{lines:.4g}",
    )
