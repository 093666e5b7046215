"""A chart as data: two axes, and layers of marks; ``svg.py`` draws it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

#: A coordinate at the edge of the plot, whatever the axis spans.
START: Final = -math.inf
END: Final = math.inf
#: Of a chart that may have another next to it.
WIDTH: Final = 520

#: ``speck`` and ``whisker`` are for very many marks: they have no text and no link.
Shape: TypeAlias = Literal[
    "area", "bar", "rule", "line", "dot", "ring", "dash", "arrow", "rise", "fall", "diamond",
    "cross", "speck", "whisker", "flag",
]  # fmt: skip


class Mark(NamedTuple):
    """One mark, in the units of the axes; ``x2``, ``y2`` is where a rule or an area ends."""

    x: float
    y: float
    x2: float | None = None
    y2: float | None = None
    #: What a reader sees who points at it.
    hover: str = ""
    #: Where a click on it leads; empty for nowhere.
    link: str = ""
    #: What stands at the upper end of a flag.
    label: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """Marks of one shape and one style: a class of the style sheet."""

    shape: Shape
    style: str
    marks: tuple[Mark, ...]
    #: What the legend says of them; empty where it leaves them out.
    name: str = ""


class Tick(NamedTuple):
    """A place on an axis, and its label."""

    value: float
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Axis:
    """What an axis shows; without ``low`` and ``high`` it spans its marks, in round steps."""

    title: str
    low: float | None = None
    high: float | None = None
    #: Zero is on it.
    zero: bool = False
    #: All of it is above zero then.
    logarithmic: bool = False
    #: These alone have labels; None for round ones.
    ticks: tuple[Tick, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart; its sizes are those of its own units, and a page scales it."""

    description: str
    x: Axis
    y: Axis
    #: The last one is on top.
    layers: tuple[Layer, ...]
    height: int
    width: int = WIDTH

    @property
    def legend(self) -> tuple[Layer, ...]:
        """The layers that the legend names, each name once."""
        return tuple({layer.name: layer for layer in self.layers if layer.name}.values())

    def marks(self, style: str) -> tuple[Mark, ...]:
        """Return the marks of the first layer of ``style``; none where it has no such layer."""
        return next((layer.marks for layer in self.layers if layer.style == style), ())


def places(labels: Sequence[str], title: str) -> Axis:
    """Return an axis with one place for each of ``labels``: 0, 1, 2 ..."""
    ticks = tuple(Tick(place, label) for place, label in enumerate(labels))
    return Axis(title=title, low=-0.5, high=len(labels) - 0.5, ticks=ticks)
