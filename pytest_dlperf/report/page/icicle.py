"""Draw the time of modules as an icicle: each below the one that it is in, as wide as its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pytest_dlperf.core.outcome import ModuleTime
from pytest_dlperf.report.page.markup import Html, joined, text

_WIDTH: Final = 660
_ROW: Final = 20
_LETTER: Final = 6.6
#: Narrower ones are not drawn; their module's own width has them.
_LEAST: Final = 1.0
_DEEPEST: Final = 12
#: Of the palette of Okabe and Ito: slower, faster, and neither.
_SLOWER: Final = "#D55E00"
_FASTER: Final = "#009E73"
_SAME: Final = "#56B4E9"
#: A module is coloured from this share of its time on, and this share of the step's.
_OF_MODULE: Final = 0.05
_OF_STEP: Final = 0.01
_BACKWARD: Final = " (backward)"
#: What has no module: operators of the step itself, and its backward.
_NO_MODULE: Final = {"": "step", "(backward)": "backward"}


@dataclass(slots=True)
class _Box:
    """A module with those within it."""

    name: str
    path: str
    own_after_ms: float = 0.0
    own_before_ms: float = 0.0
    inner: dict[str, _Box] = field(default_factory=dict)

    @property
    def after_ms(self) -> float:
        return self.own_after_ms + sum(one.after_ms for one in self.inner.values())

    @property
    def before_ms(self) -> float:
        return self.own_before_ms + sum(one.before_ms for one in self.inner.values())


def _milliseconds(value: float) -> str:
    return f"{value:.2f} ms"


def icicle(
    modules: Sequence[ModuleTime],
    *,
    what: str = "time",
    shown: Callable[[float], str] = _milliseconds,
) -> Html:
    """Return the icicle of what the operators take now, coloured by what was before.

    Nothing where no operator has the path of a module. ``what`` they take is their time, or
    something else that adds up, which ``shown`` says in words.
    """
    if not any(module.path.removesuffix(_BACKWARD) not in _NO_MODULE for module in modules):
        return Html("")
    compares = any(module.before_ms is not None for module in modules)
    root = _tree(modules, has_phases=what == "time")
    whole = max(root.after_ms, root.before_ms)
    if whole <= 0:
        return Html("")
    boxes = list(_boxes(root, 0.0, 0, _WIDTH / whole))
    rows = 1 + max((depth for _, _, depth in boxes), default=0)
    drawn = [
        _box(box, left, depth, root, compares=compares, shown=shown) for box, left, depth in boxes
    ]
    label = f"the {what} of operators by module, those within a module below it"
    longer = "longer" if what == "time" else "more"
    colours = f" Orange ones take {longer} than before, green ones less." if compares else ""
    halves = "the forward and the backward, " if what == "time" else ""
    return joined(
        [
            f'<figure><svg class="icicle" role="img" aria-label="{label}" width="100%" '
            f'viewBox="0 0 {_WIDTH} {rows * _ROW}" font-size="11">',
            *drawn,
            "</svg>",
            f"<figcaption>Operators by module, now: {halves}each as wide as "
            f"its {what}.{colours}</figcaption></figure>",
        ]
    )


def _tree(modules: Sequence[ModuleTime], *, has_phases: bool) -> _Box:
    root = _Box(name="operators", path="operators")
    for module in modules:
        path = module.path.removesuffix(_BACKWARD)
        backward = path != module.path or path == _BACKWARD.strip()
        phase = "backward" if backward else "forward"
        names = [phase, *path.split(".")] if path not in _NO_MODULE else [phase]
        if path in {"optimizer", "data"}:
            names = [path]
        if not has_phases:
            names = path.split(".") if path else []
        box = root
        for depth, name in enumerate(names[:_DEEPEST]):
            inner = ".".join(names[1 : depth + 1])
            box = box.inner.setdefault(name, _Box(name=name, path=inner or name))
        box.own_after_ms += module.after_ms
        box.own_before_ms += module.before_ms or 0.0
    return root


def _boxes(box: _Box, left: float, depth: int, scale: float) -> Iterator[tuple[_Box, float, int]]:
    if box.after_ms * scale < _LEAST:
        return
    yield box, left, depth
    for inner in box.inner.values():
        yield from _boxes(inner, left, depth + 1, scale)
        left += inner.after_ms * scale


def _box(
    box: _Box,
    left: float,
    depth: int,
    root: _Box,
    *,
    compares: bool,
    shown: Callable[[float], str],
) -> Html:
    whole = max(root.after_ms, root.before_ms)
    width = box.after_ms * _WIDTH / whole
    top = depth * _ROW
    times = shown(box.after_ms)
    if compares:
        increase = box.after_ms - box.before_ms
        sign = "-" if increase < 0 else "+"
        times = f"{shown(box.before_ms)} to {times} ({sign}{shown(abs(increase))})"
    letters = int((width - 6) / _LETTER)
    name = box.name if len(box.name) <= letters else box.name[:letters]
    label = (
        f'<text x="{left + 3:.1f}" y="{top + _ROW - 6}" fill="#000">{text(name)}</text>'
        if letters > 0
        else ""
    )
    return Html(
        f'<g><title>{text(box.path)}: {times}</title><rect x="{left:.1f}" y="{top}" '
        f'width="{width:.1f}" height="{_ROW - 1}" stroke="#fff" stroke-width="0.5" '
        f'fill="{_colour(box, whole) if compares else _SAME}"/>{label}</g>'
    )


def _colour(box: _Box, whole_ms: float) -> str:
    difference = box.after_ms - box.before_ms
    if abs(difference) <= max(_OF_MODULE * box.before_ms, _OF_STEP * whole_ms):
        return _SAME
    return _SLOWER if difference > 0 else _FASTER
