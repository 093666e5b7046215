"""Scale the windows of a log to rates of all devices, and make estimates and spans of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from pytest_dlperf.core.log_pattern import Scope
from pytest_dlperf.core.quantity import same_work
from pytest_dlperf.core.run import Span
from pytest_dlperf.measure.logs.by_clock import clock_windows
from pytest_dlperf.measure.logs.clocks import Clock
from pytest_dlperf.measure.logs.declare import FIGURES, LEAST, MOST, Format
from pytest_dlperf.measure.logs.forgetting_mean import undone
from pytest_dlperf.measure.logs.windows import LogWindows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RateSeries:
    """Windows with rates of all devices, in columns of one length; NaN is unknown.

    Work is in the unit. If ``knows_work`` is not set it is in iterations, and seconds are only in
    proportion to them.
    """

    first: Floats
    last: Floats
    #: Of these iterations alone.
    rate: Floats
    #: As printed, scaled.
    printed_rate: Floats
    #: Of all iterations until the last one, by the log's own mean, scaled.
    mean_rate: Floats
    work: Floats
    seconds: Floats
    wait_seconds: Floats
    label: Floats
    label_start: Floats
    at_s: Floats
    epoch_begins: Flags
    knows_work: Flags
    #: Of one device, as printed: ``declare.FIGURES``.
    memory_bytes: Floats
    tflops: Floats
    mfu: Floats
    grad_norm: Floats

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.first)

    def where(self, kept: Flags) -> RateSeries:
        """Return the windows that are flagged."""
        columns = {field.name: getattr(self, field.name)[kept] for field in fields(self)}
        return RateSeries(**columns)

    @property
    def iterations(self) -> Floats:
        """How many iterations each holds."""
        return self.last - self.first + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimates:
    """Rates of the same windows by three rules."""

    mean_of_rates: float
    median_of_rates: float
    time_weighted: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """What else a log prints of the same windows; None where it prints nothing of it.

    Of one device, and the median of the windows but for the memory.
    """

    #: The most of any window.
    peak_memory_bytes: float | None = None
    #: TFLOP/s.
    tflops: float | None = None
    #: Model FLOPs utilization by the program's own account, a share.
    mfu: float | None = None
    #: Norm of the gradients.
    grad_norm: float | None = None


def scaled(
    windows: LogWindows,
    *,
    factor: float | None,
    batch: float | None,
    varies: bool,
    clock: Clock,
    fmt: Format,
) -> RateSeries:
    """Return the rates of all devices; empty if what it takes to scale them is unknown.

    ``factor`` is that of ``factor_of``. ``batch`` is the work of one iteration of all devices, or
    the most of it where it ``varies``.
    """
    window = {**windows.columns()}
    window["at_s"] = clock.unwrapped(window["at_s"])
    if fmt.by_clock:
        window = clock_windows(window, clock.resolution)
    if fmt.rate_keeps is not None:
        rates = undone(window["rate"], window["seconds_each"], window["label"] - 1, fmt.rate_keeps)
        window |= {"rate": rates, "printed_rate": rates}
    global_batch = np.nan if batch is None else batch
    # A printed rate goes before one that the batch size and the time make.
    by_rate = ~np.isnan(window["rate"]) & (factor is not None)
    by_time = ~by_rate & ~np.isnan(window["seconds_each"]) & (batch is not None)
    scale = np.nan if factor is None else factor
    made = global_batch / window["seconds_each"]
    printed = np.where(window["printed_rate"] > 0, window["printed_rate"], window["rate"])
    rate = np.where(by_rate, window["rate"] * scale, made)
    # If the batch is unknown, or varies, it is a rate times its seconds.
    product = window["rate"] * window["seconds_each"] * scale
    unsaid = varies or batch is None
    each = np.where(by_rate & (product > 0) & unsaid, product, global_batch)
    varied = window["work_each"]
    each = np.where(by_rate & (varied > LEAST) & (varied < MOST), varied * scale, each)
    iterations = window["last"] - window["first"] + 1
    work = iterations * np.where(np.isnan(each), 1.0, each)
    seconds = work / rate
    waits = window["seconds_each"] > 0
    share = np.divide(window["wait_each"], window["seconds_each"], where=waits, out=rate * np.nan)
    share = np.clip(share, 0, 1)
    return RateSeries(
        first=window["first"],
        last=window["last"],
        rate=rate,
        printed_rate=np.where(by_rate, printed * scale, made),
        mean_rate=window["mean_rate"] * scale,
        work=work,
        seconds=seconds,
        wait_seconds=seconds * share,
        label=window["label"],
        label_start=window["label_start"],
        at_s=window["at_s"],
        epoch_begins=window["epoch_begins"] > 0,
        knows_work=each > 0,
        **{name: window[name] for name in FIGURES},
    ).where((by_rate | by_time) & (iterations > 0))


def factor_of(
    scope: Scope, world_size: int | None, node_devices: int | None, split: int
) -> float | None:
    """Return how many times a printed rate is that of all devices; None if it is unknown.

    ``split`` ranks are one replica.
    """
    if scope == "global":
        return 1.0
    if world_size is None:
        return None
    if scope == "node":
        return None if node_devices is None else world_size / node_devices
    return world_size / split if scope == "replica" else float(world_size)


def after(series: RateSeries, skip: int) -> Flags:
    """Return which windows are after the warm-up; one across its end is dropped whole."""
    return series.first > skip


def estimates(series: RateSeries) -> Estimates:
    """Return the three rates of at least one window; the first two are of printed rates."""
    return Estimates(
        mean_of_rates=float(np.mean(series.printed_rate)),
        median_of_rates=float(np.median(series.printed_rate)),
        time_weighted=time_weighted(series),
    )


def time_weighted(series: RateSeries) -> float:
    """Return work over time."""
    return float(np.sum(series.work) / np.sum(series.seconds))


def iteration_work(series: RateSeries) -> float | None:
    """Return the work of an iteration; None if a window does not know it, or if it varies."""
    if not len(series) or not series.knows_work.all():
        return None
    each = series.work / series.iterations
    least, most = float(np.min(each)), float(np.max(each))
    return float(np.median(each)) if same_work(least, most) else None


def figures(series: RateSeries) -> Figures | None:
    """Return the figures of at least one window; None if the log prints none of them."""
    memory = series.memory_bytes
    printed = Figures(
        peak_memory_bytes=_summarized(np.max, memory[memory > 0]),
        tflops=_summarized(np.median, series.tflops),
        mfu=_summarized(np.median, series.mfu),
        grad_norm=_summarized(np.median, series.grad_norm),
    )
    return None if printed == Figures() else printed


def _summarized(summary: Callable[[Floats], float], column: Floats) -> float | None:
    known = column[np.isfinite(column)]
    return float(summary(known)) if len(known) else None


def data_wait_share(series: RateSeries) -> float | None:
    """Return the share of the time that was waiting for data; None if it is unknown."""
    known = ~np.isnan(series.wait_seconds)
    if not known.any():
        return None
    return float(np.sum(series.wait_seconds[known]) / np.sum(series.seconds[known]))


def spans(series: RateSeries, world_size: int) -> tuple[Span, ...]:
    """Return the windows as spans of rank 0, as live runs have; all ranks are alike."""
    waits = [None if np.isnan(wait) else float(wait) for wait in series.wait_seconds]
    rows = zip(
        series.first.astype(int).tolist(),
        series.last.astype(int).tolist(),
        series.seconds.tolist(),
        (series.work / world_size).tolist(),
        waits,
        strict=True,
    )
    return tuple(
        Span(rank=0, first_step=a, last_step=b, seconds=s, work=work, data_wait_seconds=wait)
        for a, b, s, work, wait in rows
    )
