"""Format numbers for people: rates, shares, times, sizes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Final

from pytest_dlperf.core.measurement import Measurement
from pytest_dlperf.core.quantity import amount
from pytest_dlperf.core.verdict import Comparison

#: What stands where nothing was measured.
ABSENT: Final = "--"


def rate(value: float | None) -> str:
    """Return a rate with four significant digits at least: ``35.52``, ``9310``."""
    if value is None:
        return ABSENT
    if value >= 1000:
        return f"{value:.0f}"
    return f"{value:#.4g}".rstrip(".")


def exact(value: float) -> str:
    """Return a number as a document prints it, nothing added and nothing rounded."""
    return f"{value:.12g}"


def accuracy(percent: float) -> str:
    """Return an accuracy with two decimals at least, as the reports print it: ``71.00 %``."""
    text = exact(percent)
    return f"{percent:.2f} %" if len(text.partition(".")[2]) < 2 else f"{text} %"


def percent(share: float | None, *, sign: bool = True) -> str:
    """Return a share as a percentage: ``-5.2 %``."""
    if share is None:
        return ABSENT
    return f"{100 * share:{'+' if sign else ''}.1f} %"


def change(comparison: Comparison) -> str:
    """Return the change as a percentage, in brackets where it was seen and not judged."""
    shown = percent(comparison.change)
    return shown if comparison.change is None or comparison.is_judged else f"({shown})"


def interval(comparison: Comparison) -> str:
    """Return the interval of a change: ``[-7.0, -3.1] %``."""
    if comparison.interval is None:
        return ABSENT
    low, high = comparison.interval
    return f"[{100 * low:+.1f}, {100 * high:+.1f}] %"


def memory(size_bytes: float | None) -> str:
    """Return bytes as ``512 MiB``."""
    return ABSENT if size_bytes is None else f"{size_bytes / 2**20:.0f} MiB"


def metrics(measurement: Measurement) -> dict[str, str]:
    """Return the median of each metric that all runs have, with its unit, by name."""
    runs = measurement.runs
    names = sorted(set.intersection(*(set(run.metrics) for run in runs))) if runs else []
    by_name = {}
    for name in names:
        value = statistics.median(run.metrics[name].value for run in runs)
        unit = runs[0].metrics[name].unit
        by_name[name] = memory(value) if unit == "bytes" else f"{amount(value)} {unit}".rstrip()
    return by_name


def arithmetic(measurement: Measurement) -> str:
    """Return the medians of a device's FLOP/s, of HFU and MFU, and the peak; may be empty.

    HFU and MFU are those of PaLM (arXiv 2204.02311, appendix B).
    """
    names = {
        "flop_per_s_per_device": "",
        "hardware_flops_utilisation": "HFU",
        "model_flop_per_s_per_device": "model",
        "model_flops_utilisation": "MFU",
        "peak_flop_per_s": "peak",
    }
    figures = []
    for name, word in names.items():
        values = [run.extras[name] for run in measurement.runs if name in run.extras]
        if not values or len(values) < len(measurement.runs):
            continue
        value = statistics.median(values)
        if name.endswith("utilisation"):
            figures.append(f"{word} {percent(value, sign=False)}")
            continue
        what = "TFLOP/s" if word == "peak" else "TFLOP/s per device"
        figures.append(f"{word} {amount(value / 1e12)} {what}".lstrip())
    if not figures:
        return ""
    dtype = measurement.conditions.dtype.removeprefix("declared ")
    return ", ".join(figures) + (f" in {dtype}" if figures[-1].startswith("peak") else "")


def energy(measurement: Measurement) -> str:
    """Return the medians of the energy for a unit of work and of a GPU's power; may be empty."""
    medians = []
    for name in ("joules_per_unit", "gpu_power_w"):
        values = [run.extras[name] for run in measurement.runs if name in run.extras]
        if not values or len(values) < len(measurement.runs):
            return ""
        medians.append(statistics.median(values))
    unit = measurement.conditions.unit or "samples"
    return f"{amount(medians[0])} J per {unit.removesuffix('s')}, {medians[1]:.0f} W per device"


def counted(number: int, noun: str) -> str:
    """Return ``1 case``, ``3 cases``; ``series`` stays."""
    return f"{number} {noun}" if number == 1 or noun == "series" else f"{number} {noun}s"


def duration(seconds: float) -> str:
    """Return ``1:02:03`` or ``2:03``."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


#: Times above these many seconds are shown in minutes, and in hours.
_MINUTES_FROM: Final = 120
_HOURS_FROM: Final = 3 * 3600


def span(low_s: float, high_s: float) -> str:
    """Return a span of time as people say it: ``18 to 60 min``."""
    unit, seconds, digits = "s", 1.0, 0
    if high_s >= _HOURS_FROM:
        unit, seconds, digits = "h", 3600.0, 1
    elif high_s >= _MINUTES_FROM:
        unit, seconds = "min", 60.0
    low, high = (f"{max(value / seconds, 10**-digits):.{digits}f}" for value in (low_s, high_s))
    return f"{high} {unit}" if low == high else f"{low} to {high} {unit}"


def utc(time: str) -> str:
    """Return a time (ISO 8601, UTC) as people read it: ``2026-11-22 02:00:00``."""
    return time.replace("T", " ").removesuffix("Z")


def period(times: Iterable[str]) -> str:
    """Return from when to when ``times`` (ISO 8601, UTC) are; empty for none."""
    ordered = sorted(filter(None, times))
    if not ordered:
        return ""
    first, last = utc(ordered[0]), utc(ordered[-1])
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"
