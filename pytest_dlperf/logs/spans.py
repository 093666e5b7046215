"""Windows to global rates and spans: scaled once, warm-up and what straddles it left out."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_dlperf.core.run import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_dlperf.core.log_pattern import Scope
    from pytest_dlperf.logs.windows import Window


@dataclass(frozen=True, kw_only=True, slots=True)
class Stretch:
    """A window in global terms. Work is in the unit; in iterations where the batch is unknown."""

    first: int
    last: int
    #: Of these iterations alone.
    rate: float
    #: As printed, scaled.
    printed_rate: float
    work: float
    seconds: float
    wait_seconds: float | None
    label: int
    label_start: int | None
    at_s: float | None
    epoch_begins: bool

    @property
    def iterations(self) -> int:
        """How many iterations it holds."""
        return self.last - self.first + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimates:
    """Rates of the same stretches by three rules."""

    mean_of_rates: float
    median_of_rates: float
    time_weighted: float


def scaled(
    windows: Iterable[Window],
    *,
    scope: Scope,
    world_size: int | None,
    node_devices: int | None,
    batch_size_per_device: int | None,
) -> list[Stretch]:
    """Return the windows in global terms; empty where what it takes to scale is unknown."""
    factor = _factor(scope, world_size, node_devices)
    batch = batch_size_per_device
    global_batch = None if batch is None or world_size is None else batch * world_size
    stretches = []
    for window in windows:
        if window.rate is not None and factor is not None:
            rate, printed = window.rate * factor, (window.printed_rate or window.rate) * factor
            each = window.work_each * factor if window.work_each else global_batch
        elif window.seconds_each is not None and global_batch is not None:
            rate = printed = global_batch / window.seconds_each
            each = global_batch
        else:
            continue
        work = float(window.iterations * (1 if each is None else each))
        seconds = work / rate
        stretches.append(
            Stretch(
                first=window.first,
                last=window.last,
                rate=rate,
                printed_rate=printed,
                work=work,
                seconds=seconds,
                wait_seconds=_wait(window, seconds),
                label=window.label,
                label_start=window.label_start,
                at_s=window.at_s,
                epoch_begins=window.epoch_begins,
            )
        )
    return stretches


def _factor(scope: Scope, world_size: int | None, node_devices: int | None) -> float | None:
    if scope == "global":
        return 1.0
    if world_size is None:
        return None
    if scope == "node":
        return None if node_devices is None else world_size / node_devices
    return float(world_size)


def _wait(window: Window, seconds: float) -> float | None:
    if window.wait_each is None or not window.seconds_each:
        return None
    return seconds * window.wait_each / window.seconds_each


def after(stretches: Sequence[Stretch], skip: int) -> list[Stretch]:
    """Return the stretches that hold no warm-up; one that straddles its end is dropped whole."""
    return [stretch for stretch in stretches if stretch.first > skip]


def estimates(stretches: Sequence[Stretch]) -> Estimates:
    """Return the three rates of at least one stretch; the first two are of what was printed."""
    return Estimates(
        mean_of_rates=statistics.fmean(stretch.printed_rate for stretch in stretches),
        median_of_rates=statistics.median(stretch.printed_rate for stretch in stretches),
        time_weighted=time_weighted(stretches),
    )


def time_weighted(stretches: Sequence[Stretch]) -> float:
    """Return work over time."""
    return sum(s.work for s in stretches) / sum(s.seconds for s in stretches)


def data_wait_share(stretches: Sequence[Stretch]) -> float | None:
    """Return the share of the time that went into waiting for data; None where none says it."""
    known = [s for s in stretches if s.wait_seconds is not None]
    if not known:
        return None
    return sum(s.wait_seconds or 0.0 for s in known) / sum(s.seconds for s in known)


def spans(stretches: Sequence[Stretch], world_size: int) -> tuple[Span, ...]:
    """Return the raw data that live runs have as well; a log speaks for rank 0 of all alike."""
    return tuple(
        Span(
            rank=0,
            first_step=stretch.first,
            last_step=stretch.last,
            seconds=stretch.seconds,
            work=stretch.work / world_size,
            data_wait_seconds=stretch.wait_seconds,
        )
        for stretch in stretches
    )
