"""World size and batch size of a log: from the options, its words, its path, or its lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs.declare import LEAST, MOST
from pytest_dlperf.measure.logs.parsed_log import ParsedLog
from pytest_dlperf.measure.logs.path_words import is_laid_out
from pytest_dlperf.measure.logs.registry import ITERATIONS

#: Where a size is from; ``lines`` are the records themselves, by their rate and time.
Source = Literal["option", "log", "path", "lines"]
#: Rate times seconds may differ from the batch by so much, of rounding.
_ROUNDING: Final = 0.10
#: Such a product is shown as a batch where it is as near to a whole number.
_WHOLE: Final = 0.01
_PER_DEVICE: Final = Problem(
    code="per-device",
    message="rates are per device, and neither the log nor its path says how many devices there "
    "are: the throughput is that of one device, and is not compared with one of all",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """The sizes by which the rates of a log are scaled; None is unknown."""

    world_size: int | None = None
    world_size_from: Source | None = None
    batch_size_per_device: int | None = None
    batch_size_from: Source | None = None
    #: Work of an iteration of all devices.
    global_batch: float | None = None
    #: Rates are of one device, and nothing says how many there are: so is the answer.
    is_of_one_device: bool = False
    #: The path names a batch that may be of one device or of all.
    is_unsure: bool = False
    #: Batch of a device by the log's words alone; None where its lines show it as well.
    batch_by_words: float | None = None
    problems: tuple[Problem, ...] = ()


def sizes(parsed: ParsedLog) -> Sizes:
    """Return the sizes: options go before the log's words, those before the path's."""
    world, world_from, odd = _world(parsed)
    declared_batch, path_batch = parsed.options.batch_size_per_device, parsed.path_facts.batch_size
    unsure = _is_unsure(parsed, world) and not (declared_batch or parsed.log_facts.batch_size)
    batch: float | None = declared_batch
    source: Source | None = "option" if declared_batch else None
    logged = _batch_by_log(parsed, world)
    if batch is None and logged is not None:
        batch, source = logged, "log"
    if batch is None and path_batch is not None and not unsure:
        batch, source = path_batch, "path"
    lines = _batch_by_lines(parsed, world)
    if lines is not None and (batch is None or abs(lines / batch - 1) > _ROUNDING):
        if batch is not None:
            odd = (*odd, _mismatch(batch, source, lines))
        if source != "option":
            batch, source = lines, "lines"
    whole = batch is not None and abs(batch - round(batch)) <= _WHOLE * batch
    if batch is not None and whole:
        batch = float(round(batch))
    is_of_device = parsed.fmt.scope == "device" and not parsed.options.in_iterations
    is_per_device = world is None and is_of_device and _has_rates(parsed)
    if is_per_device:
        odd = (*odd, _PER_DEVICE)
    return Sizes(
        is_of_one_device=is_per_device,
        world_size=world,
        world_size_from=world_from,
        batch_size_per_device=int(batch) if batch and whole else None,
        batch_size_from=source if whole else None,
        global_batch=_global_batch(parsed, batch, world),
        is_unsure=unsure and batch is None,
        batch_by_words=logged if lines is None else None,
        problems=odd,
    )


def _rate_of_device(parsed: ParsedLog, size: Sizes) -> Problem | None:
    """Return why a rate is not that of all devices, though the user's pattern says so."""
    fmt = parsed.fmt
    words = "" if fmt.rate_of_device is None else fmt.rate_of_device()
    if fmt.scope != "global" or size.world_size == 1:
        return None
    if not words and (sentence := parsed.log_facts.rate_of_part):
        return Problem(
            code="unknown-scale",
            message=f"the log says that its rates are of a part of all devices ({sentence!r}); "
            "the pattern says nothing of it: say whose they are (--scope=device or process or "
            "node, or global where those that it reads are of all)",
        )
    if not words:
        return None
    return Problem(
        code="unknown-scale",
        message=f"the lines say that a rate is of a part of the devices ({words!r}), and the "
        "pattern that it is of all; say whose it is (--scope=device or process or node), or "
        "that there is one (--world_size=1)",
    )


def refusal(parsed: ParsedLog, size: Sizes) -> Iterator[Problem]:
    """Yield why rates are of other devices, or of another work, than their lines say.

    Some programs count the work of one iteration for all of a window; either will do.
    """
    if parsed.fmt.unit == ITERATIONS:
        return
    if (problem := _rate_of_device(parsed, size)) is not None:
        yield problem
        return
    columns = parsed.timeline.windows.columns()
    is_possible = (columns["work_each"] > LEAST) & (columns["work_each"] < MOST)
    has_times = (
        np.isnan(columns["rate"]) & is_possible & (parsed.timeline.windows.iterations() > 0)
    )
    if size.global_batch is None or not has_times.any():
        return
    stated = columns["work_each"][has_times]
    iterations = parsed.timeline.windows.iterations()[has_times]
    times = size.global_batch / stated
    apart = [float(np.median(np.abs(times / count - 1))) for count in (1, iterations)]
    if min(apart) > _ROUNDING:
        yield Problem(
            code="unknown-scale",
            message=f"by the batch size and the devices an iteration is of {size.global_batch:g} "
            f"{parsed.fmt.unit}, and by the samples and the steps a second of its lines of "
            f"{float(np.median(stated)):.4g}: where gradients are accumulated, the batch size of "
            "a device is that of an update",
        )


def _world(parsed: ParsedLog) -> tuple[int | None, Source | None, tuple[Problem, ...]]:
    log, declared = parsed.log_facts, parsed.options.world_size
    path_world = parsed.path_facts.world_size
    if declared or log.all_devices:
        return declared or log.all_devices, "option" if declared else "log", ()
    ways = log.data_parallel
    if path_world and (ways is None or path_world % ways == 0):
        return path_world, "path", ()
    if ways is not None:
        return ways, "log", ()
    node = log.node_devices
    odd = Problem(
        code="one-node",
        message=f"the log names {node} devices of a node, and neither it nor its path says how "
        "many nodes; one was taken",
    )
    return (None, None, ()) if node is None else (node, "log", (odd,))


def _batch_by_log(parsed: ParsedLog, world: int | None) -> float | None:
    """Return the batch of a device by the log's words, a part of one where devices share it.

    Where the case says that they do, the batch of a replica.
    """
    log, batch_of, split = parsed.log_facts, parsed.fmt.batch_of, parsed.options.split
    update = log.update_batch or (None if _has_rates(parsed) else log.event_batch)
    if update is not None:
        return None if world is None else update * split / world
    if log.batch_size is None or batch_of == "device" or log.per_replica:
        return log.batch_size
    devices = world
    if batch_of == "node" and log.node_devices is not None:
        devices = log.node_devices
    return None if devices is None else log.batch_size * split / devices


def _global_batch(parsed: ParsedLog, batch: float | None, world: int | None) -> float | None:
    """Return the work of an iteration of all devices, in the unit of the format."""
    if parsed.options.in_iterations:
        return None if parsed.fmt.steps_are_work else 1.0
    is_one = parsed.fmt.scope == "global" or not _has_rates(parsed)
    if parsed.fmt.unit == ITERATIONS and is_one:
        return 1.0
    if counts_unit(parsed):
        each: float | None = batch
    else:
        stated = _batch_of_all(parsed)
        each = parsed.options.work_per_device if stated is None else None
    if each and world:
        return each * world / parsed.options.split
    return _batch_of_all(parsed)


def counts_unit(parsed: ParsedLog) -> bool:
    """Return whether a batch size counts what the log counts: it counts samples, no tokens."""
    if parsed.fmt.unit != "tokens":
        return True
    return parsed.fmt.batch_is_work and not _has_rates(parsed)


def _batch_of_all(parsed: ParsedLog) -> float | None:
    """Return the work of an update of all devices where the log says it as such."""
    log = parsed.log_facts
    if parsed.fmt.unit == "tokens":
        return None if _has_rates(parsed) else log.iteration_tokens
    if log.update_batch is not None or _has_rates(parsed):
        return log.update_batch
    is_global = parsed.fmt.batch_of == "global" and not log.per_replica
    return log.event_batch or (log.batch_size if is_global else None)


def _has_rates(parsed: ParsedLog) -> bool:
    return not np.isnan(parsed.timeline.windows.columns()["rate"]).all()


def _is_unsure(parsed: ParsedLog, world: int | None) -> bool:
    """Return whether a path's batch may be of one device or of all, and it matters which."""
    one_process = parsed.fmt.scope == "process" and parsed.fmt.batch_of != "device"
    has_batch = parsed.path_facts.batch_size is not None
    return one_process and has_batch and world != 1 and not is_laid_out(parsed.path)


def _batch_by_lines(parsed: ParsedLog, world: int | None) -> float | None:
    """Return the batch of a device by rate and seconds of the lines, where they have both."""
    scopes = {"device": 1, "replica": parsed.options.split, "global": world}
    devices = scopes.get(parsed.fmt.scope)
    if parsed.fmt.unit == "tokens" or devices is None:
        return None
    columns = parsed.timeline.windows.columns()
    products = columns["rate"] * columns["seconds_each"]
    products = products[np.isfinite(products)]
    if not len(products):
        return None
    return float(np.median(products)) * parsed.options.split / devices


def _mismatch(batch: float, source: Source | None, lines: float) -> Problem:
    who = {
        "option": "a batch of {:g} a device was declared",
        "path": "the path says a batch of {:g} a device",
    }
    stated = who.get(source or "", "the log says a batch of {:g} a device").format(batch)
    return Problem(
        code="batch-size-mismatch",
        message=f"{stated}; rate times seconds of the lines is {lines:.4g}",
    )
