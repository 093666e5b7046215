"""Phrases that several sentences have: changes, intervals, both sides of a comparison."""

from __future__ import annotations

from pytest_dlperf.core.finding import Finding
from pytest_dlperf.core.quantity import amount, percent, signed


def change(value: float, worse: str = "slower", better: str = "faster") -> str:
    """Return a change of a throughput in words."""
    if abs(value) < 0.0005:
        return "unchanged"
    return f"{percent(abs(value))} {better if value > 0 else worse}"


def change_than(value: float, than: str) -> str:
    """Return by how much a rate is another one ``than`` what it was compared with."""
    words = change(value)
    return f"as fast as {than}" if words == "unchanged" else f"{words} than {than}"


def interval(finding: Finding) -> str:
    """Return the interval of a change: ``90 % interval -1.0 % to +1.0 %``."""
    return f"90 % interval {signed(finding.number('low'))} to {signed(finding.number('high'))}"


def ends(low: float, high: float) -> str:
    """Return an interval in brackets; one of a slowdown without signs."""
    if low < 0 and high < 0:
        return f"({100 * -high:.1f} to {percent(-low)})"
    return f"({100 * low:+.1f} to {signed(high)})"


def both_sides(finding: Finding, unit: str = "") -> str:
    """Return ``100 to 97 samples/s``; bytes as MiB."""
    scale = 2**20 if unit == "bytes" else 1
    unit = "MiB" if unit == "bytes" else unit
    sides = (
        f"{amount(finding.number('before') / scale)} to {amount(finding.number('now') / scale)}"
    )
    return f"{sides} {unit}".rstrip()


def figure(value: float, unit: str) -> str:
    """Return a figure with its unit; bytes as MiB."""
    if unit == "bytes":
        return f"{amount(value / 2**20)} MiB"
    return f"{amount(value)} {unit}".rstrip()


def how_much(finding: Finding) -> str:
    """Return by how much a throughput differs from what it was compared with, and its interval."""
    than = f"{change(finding.number('change'))} than {finding.text('against')}"
    than = than.replace("unchanged than", "unchanged from")
    unit = finding.text("unit")
    rates = both_sides(finding, f"{unit}/s" if unit else "")
    by_median = " at the median iteration" if finding.figures.get("by_median") else ""
    return f"{than} ({rates}{by_median}; {interval(finding)})"
