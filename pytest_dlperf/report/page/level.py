"""The stored level that rates are compared with, and what is tolerated below it, as layers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pytest_dlperf.report.page.chart import Layer, Mark


class Stretch(NamedTuple):
    """A level from one place of a chart to another; its tolerance is a share of it."""

    begin: float
    end: float
    level: float
    tolerance: float | None


def joined_stretches(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return equal stretches that touch each other as one, in their order."""
    whole: list[Stretch] = []
    for stretch in stretches:
        last = whole[-1] if whole else None
        if last is not None and last == stretch._replace(begin=last.begin, end=stretch.begin):
            whole[-1] = last._replace(end=stretch.end)
        else:
            whole.append(stretch)
    return whole


def level_layers(
    stretches: Sequence[Stretch], *, level_name: str = "", band_name: str = ""
) -> list[Layer]:
    """Return the band of what is tolerated, and the line that changes are counted from."""
    bands = tuple(
        Mark(begin, level * (1 - tolerance), x2=end, y2=level)
        for begin, end, level, tolerance in stretches
        if tolerance
    )
    lines = tuple(Mark(begin, level, x2=end) for begin, end, level, _ in stretches)
    layers = [
        Layer(shape="area", style="band", marks=bands, name=band_name),
        Layer(shape="rule", style="ideal", marks=lines, name=level_name),
    ]
    return [layer for layer in layers if layer.marks]
