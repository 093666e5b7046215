"""What a log says of the work of an iteration, where its rates are not scaled by it.

A rate times the seconds of an iteration by the clock is the work of one. A batch size in the
settings, and the time of a step that a line prints beside its rate, say that as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pytest_dlperf.measure.logs import spans
from pytest_dlperf.measure.logs.parsed_log import ParsedLog
from pytest_dlperf.measure.logs.sizes import Sizes

#: The work of an iteration may be that of several devices, or a part of what is said.
Kind = Literal["exact", "several", "part", "at most"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Stated:
    """What a log says of the work of an iteration, in the scope and the unit of its rates."""

    work: float
    kind: Kind
    #: Who says so, in words.
    words: str

    def contradicts(self, work: float, apart: float) -> bool:
        """Return whether an iteration cannot be of so much work; ``apart`` is a ratio."""
        times = work / self.work
        if self.kind == "at most":
            return times > apart
        if self.kind == "part":
            times = 1 / times
        whole = 1.0 if self.kind == "exact" else max(1.0, round(times))
        return not 1 / apart <= times / whole <= apart


def stated(parsed: ParsedLog, size: Sizes) -> Iterator[Stated]:
    """Yield what a log says of the work of an iteration, in the scope of its scaled rates."""
    fmt, log = parsed.fmt, parsed.log_facts
    if parsed.options.in_iterations or parsed.options.batch_size_per_device is not None:
        return
    is_device_rate = size.is_of_one_device
    if fmt.unit != "tokens":
        if log.said_batch is not None and not is_device_rate:
            yield Stated(
                work=log.said_batch,
                kind="part",
                words=f"the log says a batch of {log.said_batch} in all",
            )
        elif size.batch_size_per_device is not None:
            yield Stated(
                work=size.batch_size_per_device,
                kind="several",
                words=f"the batch is {size.batch_size_per_device} a device",
            )
    elif log.trainer_tokens is not None:
        replica_tokens, all_tokens = log.trainer_tokens
        yield Stated(
            work=replica_tokens if is_device_rate else all_tokens,
            kind="part",
            words=f"the log says {replica_tokens:,} tokens of a replica, "
            f"and {all_tokens:,} in all",
        )
    by_lines = None if fmt.work_of_lines is None else fmt.work_of_lines()
    node_devices = parsed.options.devices_per_node or log.node_devices
    factor = (
        1.0
        if is_device_rate
        else spans.factor_of(fmt.scope, size.world_size, node_devices, parsed.options.split)
    )
    if by_lines is not None and factor is not None:
        work = by_lines * factor
        yield Stated(
            work=work,
            kind="at most",
            words=f"by the time of a step that the lines print it is {work:.6g}",
        )
