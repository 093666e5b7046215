"""The picture: false alarms of a suite against slowdowns found, one panel a level of noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from verdict_study.trial import EQUAL_INTERLEAVED, EQUAL_STORED, INTERLEAVED, STORED, USUAL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from verdict_study.data import DataSet
    from verdict_study.table import Results
    from verdict_study.tally import Tally

_SHAPES: Final = {USUAL: "o", EQUAL_STORED: "s", EQUAL_INTERLEAVED: "D"}
_OURS: Final = {STORED: "stored", INTERLEAVED: "interleaved"}
#: The slowdown whose detection is drawn.
_TRUTH: Final = 0.03
#: Area of a marker, in points, a run of an unchanged case.
_AREA: Final = 14.0


def _point(tally: Tally) -> tuple[float, float] | None:
    rate = tally.rate(_TRUTH, "regressed")
    return None if rate is None else (100 * rate[0], 100 * tally.suite_alarms()[0])


def _panel(axes: Axes, data: DataSet, results: Results, colours: Mapping[str, object]) -> None:
    for (rule, use), tally in results.items():
        point = _point(tally)
        if point is None:
            continue
        area = _AREA * tally.mean_runs()
        if use in _OURS:
            axes.scatter(*point, s=area + 60, c="black", marker="*", zorder=5)
            left = point[0] > 50
            height = 16 if use == INTERLEAVED else 32
            axes.annotate(
                _OURS[use],
                point,
                xytext=(-16 if left else 16, height),
                textcoords="offset points",
                ha="right" if left else "left",
                weight="bold",
                arrowprops={"arrowstyle": "-", "linewidth": 0.6},
                zorder=6,
            )
        else:
            colour = [colours[rule]]
            axes.scatter(
                *point, s=area, c=colour, marker=_SHAPES[use], alpha=0.75, linewidths=0.5,
                edgecolors="white", zorder=3,
            )  # fmt: skip
    axes.axhline(5, color="grey", linewidth=0.8, linestyle="--", zorder=1)
    axes.set_title(data.name)
    axes.set_xlim(-4, 104)
    axes.set_ylim(-6, 106)
    axes.grid(alpha=0.25)
    axes.set_xlabel(f"slowdowns of {_TRUTH:.0%} found, % of cases")


def draw(sets: Sequence[DataSet], results: Mapping[str, Results], path: Path) -> None:
    """Write a PNG."""
    rules = list(
        dict.fromkeys(
            rule for data in sets for rule, use in results[data.name] if use not in _OURS
        )
    )
    palette = (
        "#1f77b4", "#9ecae1", "#2ca02c", "#98df8a", "#7f2704", "#e6550d", "#fdae6b", "#6a3d9a",
        "#b2a0d6", "#d62728", "#ff9896", "#17becf",
    )  # fmt: skip
    colours = {rule: palette[index % len(palette)] for index, rule in enumerate(rules)}
    figure = Figure(figsize=(5.2 * len(sets), 7.6), dpi=130)
    panels = figure.subplots(1, len(sets), sharey=True, squeeze=False)[0]
    for axes, data in zip(panels, sets, strict=True):
        _panel(axes, data, results[data.name], colours)
    panels[0].set_ylabel("unchanged suites of 24 cases with a false alarm, %")

    def mark(shape: str, colour: str, label: str, size: float = 8.0) -> Line2D:
        return Line2D(
            [], [], marker=shape, color=colour, label=label, linestyle="", markersize=size
        )

    handles = [
        mark("*", "black", "pytest-dlperf", 11),
        *(mark("o", colour, rule) for rule, colour in colours.items()),
        mark("o", "grey", "as its users do, against a stored session"),
        mark("s", "grey", "the same with as many runs as ours took"),
        mark("D", "grey", "side by side with as many runs as ours took"),
        *(
            mark(
                "o",
                "lightgrey",
                f"runs of an unchanged case: {runs}",
                (_AREA * runs) ** 0.5,
            )
            for runs in (1, 5, 20)
        ),
        Line2D([], [], color="grey", linestyle="--", label="5 % of suites: the bound of ours"),
    ]
    figure.legend(handles=handles, loc="lower center", ncol=3, fontsize=9, frameon=False)
    figure.suptitle("Right and below is better: slowdowns found against false alarms")
    figure.tight_layout(rect=(0, 0.24, 1, 1))
    figure.savefig(path)
