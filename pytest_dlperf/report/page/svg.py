"""Draw a chart as SVG, with a table of its figures: colours are the style sheet's, no scripts."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pytest_dlperf.report.page.chart import (
    END,
    START,
    WIDTH,
    Axis,
    Chart,
    Layer,
    Mark,
    Shape,
    Tick,
)
from pytest_dlperf.report.page.markup import Html, joined, text

#: Sizes in the units of a chart: those of a pixel where a page shows it as it is.
_LETTER: Final = 7.0
_LINE: Final = 16
_ABOVE: Final = 10
_BELOW: Final = 38
_RIGHT: Final = 10
_GAP: Final = 8
_RADIUS: Final = 3.2
_DASH: Final = 11
_BAR: Final = 0.6
#: Lines of labels above a plot, and how far each is from its flag.
_FLAG_LINES: Final = 3
_FLAG_GAP: Final = 4
#: Points of a line that are a few pixels apart, so that tenths of one are not seen.
_DENSE: Final = 50
_SPARK_WIDTH: Final = 96
_SPARK_HEIGHT: Final = 18
#: Round steps on an axis, about so many.
_TICKS_Y: Final = 5
_TICKS_X: Final = 8
#: Letters of an axis number, by the power of ten that they stand for.
_UNITS: Final = ((9, "G"), (6, "M"), (3, "k"))


def draw(chart: Chart) -> Html:
    """Return the chart as an element of HTML, with a label for those who do not see it."""
    marks = [mark for layer in chart.layers for mark in layer.marks]
    x = _spanned(chart.x, [(mark.x, mark.x2) for mark in marks], _TICKS_X)
    y = _spanned(chart.y, [(mark.y, mark.y2) for mark in marks], _TICKS_Y)
    left = 12 + _LINE + max((_length(tick.label) for tick in y.ticks or ()), default=0)
    across = _scale(x, left, chart.width - _RIGHT)
    labels = list(_flag_labels(chart, across))
    top = _ABOVE + max((label.line + 1 for label in labels), default=0) * _LINE
    plot = _Plot(
        left=left,
        top=top,
        right=chart.width - _RIGHT,
        bottom=top + chart.height,
        across=across,
        down=_scale(y, top + chart.height, top),
    )
    height = plot.bottom + _BELOW
    wide = " wide-chart" if chart.width > WIDTH else ""
    return joined(
        [
            f'<svg class="drawn{wide}" role="img" viewBox="0 0 {chart.width} {_n(height)}" '
            f'aria-label="{text(chart.description)}">',
            *_axes(plot, x, y, chart.width),
            *(_layer(plot, layer) for layer in chart.layers if layer.marks),
            *(_flag_label(plot, label) for label in labels),
            "</svg>",
        ]
    )


class _Plot(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float
    across: Callable[[float], float]
    down: Callable[[float], float]

    def x(self, value: float) -> float:
        """Return where ``value`` is across; what is beyond the axis is at its edge."""
        return min(max(self.across(value), self.left), self.right)

    def y(self, value: float) -> float:
        return min(max(self.down(value), self.top), self.bottom)


def _spanned(axis: Axis, ends: Iterable[tuple[float, float | None]], count: int) -> Axis:
    """Return ``axis`` with its span and its ticks."""
    values = [
        value for pair in ends for value in pair if value is not None and math.isfinite(value)
    ]
    low = min(values, default=0.0) if axis.low is None else axis.low
    high = max(values, default=1.0) if axis.high is None else axis.high
    if axis.zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        margin = 0.05 * abs(high) or 1.0
        low, high = low - (0.0 if axis.zero and low == 0.0 else margin), high + margin
    if axis.logarithmic:
        return replace(axis, low=low, high=high, ticks=axis.ticks or _powers(low, high))
    step = _step(high - low, count)
    if axis.low is None:
        low = math.floor(low / step + 1e-9) * step
    if axis.high is None:
        high = math.ceil(high / step - 1e-9) * step
    return replace(axis, low=low, high=high, ticks=axis.ticks or _round(low, high, step))


def _step(span: float, count: int) -> float:
    """Return 1, 2 or 5 times a power of ten, which ``span`` has about ``count`` times."""
    raw = span / count
    power = 10.0 ** math.floor(math.log10(raw))
    return next(times * power for times in (1, 2, 5, 10) if times * power >= raw * 0.999)


def _round(low: float, high: float, step: float) -> tuple[Tick, ...]:
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    power, unit = next(
        ((power, unit) for power, unit in _UNITS if step * last >= 10.0 ** (power + 2) * 0.999),
        (0, ""),
    )
    decimals = max(0, -math.floor(math.log10(step / 10.0**power) + 1e-9))
    return tuple(
        Tick(index * step, f"{index * step / 10.0**power:.{decimals}f}{unit if index else ''}")
        for index in range(first, last + 1)
    )


def _powers(low: float, high: float) -> tuple[Tick, ...]:
    """Return 1, 2 and 5 times powers of ten; the ends as they are where fewer than two fit."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [times * 10.0**power for power in powers for times in (1, 2, 5)]
    values = [value for value in values if low <= value <= high]
    return tuple(
        Tick(value, f"{value:.4g}") for value in (values if len(values) > 1 else (low, high))
    )


def _scale(axis: Axis, begin: float, end: float) -> Callable[[float], float]:
    """Return what maps values to places between ``begin`` and ``end``; its edges for infinity."""
    assert axis.low is not None
    assert axis.high is not None
    low, high = axis.low, axis.high
    if axis.logarithmic:
        low, high = math.log10(low), math.log10(high)

    def place(value: float) -> float:
        if math.isinf(value) or (axis.logarithmic and value <= 0):
            return end if value > 0 else begin
        if axis.logarithmic:
            value = math.log10(value)
        return begin + (end - begin) * (value - low) / (high - low)

    return place


def _axes(plot: _Plot, x: Axis, y: Axis, width: int) -> Iterator[str]:
    """Yield lines and labels of both axes; labels that would overlap are left out."""
    lines = "".join(
        f"M{_n(plot.left)} {_n(plot.y(t.value))}H{_n(plot.right)}" for t in y.ticks or ()
    )
    yield f'<path class="grid" d="{lines}"/>'
    yield f'<path class="axis" d="M{_n(plot.left)} {_n(plot.bottom)}H{_n(plot.right)}"/>'
    yield '<g class="labels" text-anchor="end">'
    for tick in _apart(y.ticks or (), lambda tick: -plot.y(tick.value), lambda _: 12):
        text_y = _n(plot.y(tick.value) + 4)
        yield f'<text x="{_n(plot.left - 6)}" y="{text_y}">{text(tick.label)}</text>'
    yield '</g><g class="labels" text-anchor="middle">'
    for tick in _apart(
        x.ticks or (), lambda tick: plot.x(tick.value), lambda tick: _length(tick.label) + _GAP
    ):
        half = _length(tick.label) / 2
        text_x = _n(min(max(plot.x(tick.value), half), width - half))
        yield f'<text x="{text_x}" y="{_n(plot.bottom + _LINE)}">{text(tick.label)}</text>'
    middle, below = _n((plot.left + plot.right) / 2), _n(plot.bottom + 2 * _LINE)
    yield f'<text x="{middle}" y="{below}">{text(x.title)}</text>'
    middle = _n((plot.top + plot.bottom) / 2)
    yield f'<text transform="translate(11 {middle}) rotate(-90)">{text(y.title)}</text></g>'


def _apart(
    ticks: Sequence[Tick], place: Callable[[Tick], float], size: Callable[[Tick], float]
) -> Iterator[Tick]:
    """Yield the ticks whose labels overlap none that came before them."""
    free = -math.inf
    for tick in ticks:
        middle, half = place(tick), size(tick) / 2
        if tick.label and middle - half >= free:
            free = middle + half
            yield tick


def _layer(plot: _Plot, layer: Layer) -> str:
    if layer.shape == "line":
        return _line(plot, layer)
    if layer.shape in _MANY:
        path = "".join(_MANY[layer.shape](plot, mark) for mark in layer.marks)
        return f'<path class="{layer.shape} {text(layer.style)}" d="{path}"/>'
    drawn = "".join(_SHAPES[layer.shape](plot, mark) for mark in layer.marks)
    return f'<g class="{layer.shape} {text(layer.style)}">{drawn}</g>'


def _line(plot: _Plot, layer: Layer) -> str:
    """Return a line, cut off at the edge of the plot rather than bent along it."""
    # Each point from the one before, in whole pixels where they are dense: a third as long
    unit = 1.0 if len(layer.marks) > _DENSE else 0.1
    pixels = [(round(plot.across(m.x) / unit), round(plot.down(m.y) / unit)) for m in layer.marks]
    steps = " ".join(
        f"{_step_of((x - x0) * unit)}{'' if y < y0 else ' '}{_step_of((y - y0) * unit)}"
        for (x0, y0), (x, y) in itertools.pairwise(pixels)
    )
    path = f"M{_n(pixels[0][0] * unit)} {_n(pixels[0][1] * unit)}{f'l{steps}' if steps else ''}"
    left, top = _n(plot.left), _n(plot.top)
    width, height = _n(plot.right - plot.left), _n(plot.bottom - plot.top)
    return (
        f'<svg x="{left}" y="{top}" width="{width}" height="{height}" '
        f'viewBox="{left} {top} {width} {height}">'
        f'<path class="line {text(layer.style)}" d="{path}"/></svg>'
    )


def _step_of(value: float) -> str:
    """Return a step to a tenth of a pixel as the shortest decimal: ``3.1``, ``-.2``."""
    shown = _n(value)
    return shown.replace("0.", ".", 1) if 0 < abs(value) < 1 else shown


def _area(plot: _Plot, mark: Mark) -> str:
    left, right = sorted((plot.x(mark.x), plot.x(mark.x if mark.x2 is None else mark.x2)))
    top, bottom = sorted((plot.y(mark.y), plot.y(mark.y if mark.y2 is None else mark.y2)))
    width, height = _n(right - left), _n(bottom - top)
    return _element(f'rect x="{_n(left)}" y="{_n(top)}" width="{width}" height="{height}"', mark)


def _bar(plot: _Plot, mark: Mark) -> str:
    """Return a bar from zero, about the place of its mark."""
    half = _BAR / 2
    return _area(plot, mark._replace(x=mark.x - half, x2=mark.x + half, y2=0.0))


def _rule(plot: _Plot, mark: Mark) -> str:
    x2, y2 = mark.x if mark.x2 is None else mark.x2, mark.y if mark.y2 is None else mark.y2
    begin = f"M{_n(plot.x(mark.x))} {_n(plot.y(mark.y))}"
    return _element(f'path d="{begin}L{_n(plot.x(x2))} {_n(plot.y(y2))}"', mark)


def _dot(plot: _Plot, mark: Mark) -> str:
    return _element(
        f'circle cx="{_n(plot.x(mark.x))}" cy="{_n(plot.y(mark.y))}" r="{_RADIUS}"', mark
    )


def _dash(plot: _Plot, mark: Mark) -> str:
    begin = f"M{_n(plot.x(mark.x) - _DASH)} {_n(plot.y(mark.y))}"
    return _element(f'path d="{begin}h{2 * _DASH}"', mark)


def _arrow(plot: _Plot, mark: Mark) -> str:
    """Return a triangle above the mark that points at it."""
    begin = f"M{_n(plot.x(mark.x))} {_n(plot.y(mark.y) - 2)}"
    return _element(f'path d="{begin}l-4.5 -8h9z"', mark)


def _drawn_about(right: float, below: float, steps: str) -> Callable[[_Plot, Mark], str]:
    """Return what draws ``steps`` about a mark; they begin so far right of it and below it."""

    def shape(plot: _Plot, mark: Mark) -> str:
        begin = f"M{_n(plot.x(mark.x) + right)} {_n(plot.y(mark.y) + below)}"
        return _element(f'path d="{begin}{steps}"', mark)

    return shape


def _element(start: str, mark: Mark) -> str:
    tag = start.partition(" ")[0]
    title = f"<title>{text(mark.hover)}</title>" if mark.hover else ""
    element = f"<{start}>{title}</{tag}>" if title else f"<{start}/>"
    # Not by the keyboard: a chart is a picture, and the table of its figures has the same links
    return f'<a href="{text(mark.link)}" tabindex="-1">{element}</a>' if mark.link else element


# In whole pixels: there are very many of them
def _speck(plot: _Plot, mark: Mark) -> str:
    return f"M{plot.x(mark.x):.0f} {plot.y(mark.y):.0f}h0"


def _whisker(plot: _Plot, mark: Mark) -> str:
    y2 = mark.y if mark.y2 is None else mark.y2
    return f"M{plot.x(mark.x):.0f} {plot.y(mark.y):.0f}V{plot.y(y2):.0f}"


_SHAPES: Final[dict[Shape, Callable[[_Plot, Mark], str]]] = {
    "area": _area,
    "bar": _bar,
    "rule": _rule,
    "flag": _rule,
    "dot": _dot,
    "ring": _dot,
    "dash": _dash,
    "arrow": _arrow,
    "rise": _drawn_about(0, -5, "l4.6 8.4h-9.2z"),
    "fall": _drawn_about(0, 5, "l4.6 -8.4h-9.2z"),
    "diamond": _drawn_about(0, -4.6, "l4.6 4.6l-4.6 4.6l-4.6 -4.6z"),
    "cross": _drawn_about(-3.6, -3.6, "l7.2 7.2m0 -7.2l-7.2 7.2"),
}
#: All marks of a layer in one path.
_MANY: Final[dict[Shape, Callable[[_Plot, Mark], str]]] = {"speck": _speck, "whisker": _whisker}


class _FlagLabel(NamedTuple):
    style: str
    mark: Mark
    x: float
    #: Where its text begins and ends.
    begin: float
    end: float
    #: Above the plot, from 0 on; its pole reaches up to it.
    line: int

    def has_room_beside(self, other: _FlagLabel) -> bool:
        """Return whether no text is on the other's, and no pole goes through a text."""
        if self.line == other.line and self.begin < other.end and other.begin < self.end:
            return False
        return not (self._is_crossed_by(other) or other._is_crossed_by(self))

    def _is_crossed_by(self, other: _FlagLabel) -> bool:
        return self.begin < other.x < self.end and other.line >= self.line


def _flag_labels(chart: Chart, across: Callable[[float], float]) -> Iterator[_FlagLabel]:
    """Yield the labels that have room; what has none is still said by its mark's hover."""
    flags = (
        (across(mark.x), layer.style, mark)
        for layer in chart.layers
        if layer.shape == "flag"
        for mark in layer.marks
        if mark.label
    )
    placed: list[_FlagLabel] = []
    # From the right: a text goes to the right of its pole, above those that begin there
    for x, style, mark in sorted(flags, key=lambda flag: flag[0], reverse=True):
        length = _length(mark.label)
        is_left = x + _FLAG_GAP + length > chart.width
        begin = x - _FLAG_GAP - length if is_left else x + _FLAG_GAP
        candidates = (
            _FlagLabel(style, mark, x, begin, begin + length, line) for line in range(_FLAG_LINES)
        )
        free = (label for label in candidates if all(map(label.has_room_beside, placed)))
        label = next(free, None)
        if label is not None and begin >= 0:
            placed.append(label)
            yield label


def _flag_label(plot: _Plot, label: _FlagLabel) -> str:
    y = plot.top - label.line * _LINE
    is_left = label.end < label.x
    x, anchor = (label.end, "end") if is_left else (label.begin, "start")
    pole = f"M{_n(label.x)} {_n(plot.top)}V{_n(y - _LINE + 4)}"
    return (
        f'<g class="flag {text(label.style)}"><path d="{pole}"/>'
        f'<text x="{_n(x)}" y="{_n(y - 4)}" text-anchor="{anchor}">'
        f"{text(label.mark.label)}</text></g>"
    )


_SWATCH: Final = _Plot(
    left=0,
    top=0,
    right=20,
    bottom=12,
    across=_scale(Axis(title="", low=0, high=1), 0, 20),
    down=_scale(Axis(title="", low=0, high=1), 12, 0),
)


def legend(chart: Chart) -> Html:
    """Return the names of the chart's layers, each beside a mark; nothing where none has one."""
    entries = [f"<li>{_swatch(layer)}{text(layer.name)}</li>" for layer in chart.legend]
    return joined(['<ul class="legend">', *entries, "</ul>"]) if entries else Html("")


def _swatch(layer: Layer) -> str:
    sample = _layer(_SWATCH, replace(layer, marks=_sample(layer.shape)))
    return f'<svg class="swatch" aria-hidden="true" viewBox="0 0 20 12">{sample}</svg>'


def _sample(shape: Shape) -> tuple[Mark, ...]:
    """Return what a swatch shows of a shape."""
    if shape == "line":
        return Mark(START, 0.5), Mark(END, 0.5)
    if shape == "bar":
        return (Mark(0.5, 1.0),)
    if shape in {"flag", "whisker"}:
        return (Mark(0.5, START, y2=END),)
    if shape == "rule":
        return (Mark(START, 0.5, x2=END),)
    if shape == "area":
        return (Mark(START, 0.9, x2=END, y2=0.1),)
    return (Mark(0.5, 0.5),)


def _length(label: str) -> float:
    """Return about how long a label is; the characters of Chinese are twice as wide."""
    wide = sum(unicodedata.east_asian_width(one) in "WF" for one in label)
    return _LETTER * (len(label) + wide)


def _n(value: float) -> str:
    """Return a coordinate, to a tenth of a pixel."""
    return f"{round(value, 1):g}"


def sparkline(values: Sequence[float]) -> Html:
    """Return a curve without axes, as high as a line of text; nothing for fewer than two."""
    if len(values) < 2:
        return Html("")
    low, high = min(values), max(values)
    step, span = _SPARK_WIDTH / (len(values) - 1), (high - low) or 1.0
    points = ",".join(
        f"{_n(index * step)} {_n(2 + (_SPARK_HEIGHT - 4) * (high - value) / span)}"
        for index, value in enumerate(values)
    )
    return Html(
        f'<svg class="drawn spark" aria-hidden="true" viewBox="0 0 {_SPARK_WIDTH} '
        f'{_SPARK_HEIGHT}"><polyline class="line now" points="{points}"/></svg>'
    )


class Drawn(NamedTuple):
    """A chart, what it shows in words, and a table of what is drawn."""

    chart: Chart
    caption: str
    numbers: Html


def figure(key: str, heading: str, drawn: Drawn | None) -> Html:
    """Return a chart under its heading; nothing where there is none."""
    if drawn is None:
        return Html("")
    return joined(
        [
            f'<figure data-chart="{text(key)}"><h3>{text(heading)}</h3>',
            f'<div class="chart">{draw(drawn.chart)}</div>',
            *filter(None, [legend(drawn.chart)]),
            f"<figcaption>{text(drawn.caption)}</figcaption>",
            '<details class="numbers"><summary>Figures of this chart</summary>',
            f"{drawn.numbers}</details></figure>",
        ]
    )
