"""Why some slowdowns are out of reach: how many pairs they take at a given noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from matplotlib.figure import Figure
from scipy.special import stdtrit

from verdict_rules import ours
from verdict_study.data import CASES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from verdict_study.data import DataSet
    from verdict_study.trial import Margins

_SLOWDOWNS: Final = (0.02, 0.03, 0.05)
#: Normal quantile of 80 %: how often that many pairs find it.
_POWER: Final = 0.842
_MOST: Final = 10_000
_SUITES: Final = 10


def pairs_needed(sd: float, slowdown: float, margins: Margins) -> int | None:
    """Return the pairs that find a slowdown four times in five, at one look by their own spread.

    ``sd`` is that of the logs of pairs. None where more than 10,000 would be needed.
    """
    reach = -math.log1p(-slowdown) + math.log1p(-margins.min_effect)
    if reach <= 0:
        return None
    for count in range(2, _MOST + 1):
        t = -float(stdtrit(count - 1, ours.ALARM_SHARE * margins.alpha / CASES))
        if (t + _POWER) * sd / math.sqrt(count) <= reach:
            return count
    return None


def spread_of_pairs(data: DataSet, seed: int) -> float:
    """Return the standard deviation of unchanged pairs (logs), by the median deviation."""
    logs: list[float] = []
    for number in range(_SUITES):
        for case in data.suite(np.random.default_rng([seed, number])):
            before, after = (
                [run.by_median for run in ours.runs(side[0.0])]
                for side in (case.before, case.after)
            )
            logs += np.log(np.divide(after, before)).tolist()
    values = np.array(logs)
    return float(1.4826 * np.median(np.abs(values - np.median(values))))


def markdown(sets: Sequence[DataSet], margins: Margins, seed: int) -> str:
    """Return the table of what each data set's noise asks for."""
    lines = [
        "## What the noise of pairs asks for",
        f"Pairs that find a slowdown four times in five, alpha {margins.alpha:.1%} of a suite of "
        f"{CASES}, min effect {margins.min_effect:.1%}, at one look, by the spread of the pairs "
        "alone. A session takes 10 at most: what asks for more is `inconclusive` there.",
        "",
        "| data | standard deviation of a pair | 2% | 3% | 5% |",
        "|---|---|---|---|---|",
    ]
    for data in sets:
        sd = spread_of_pairs(data, seed)
        needed = (pairs_needed(sd, slowdown, margins) for slowdown in _SLOWDOWNS)
        cells = " | ".join("more than 10,000" if n is None else str(n) for n in needed)
        lines.append(f"| {data.name} | {100 * sd:.2f}% | {cells} |")
    return "\n".join([*lines, ""])


def draw(sets: Sequence[DataSet], margins: Margins, seed: int, path: Path) -> None:
    """Draw the pairs that slowdowns take against the noise, with the data sets on it."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    noise = np.geomspace(0.003, 0.3, 60)
    for slowdown in _SLOWDOWNS:
        needed = [pairs_needed(float(sd), slowdown, margins) or math.nan for sd in noise]
        axes.plot(100 * noise, needed, label=f"{slowdown:.0%} slower")
    axes.axhline(10, color="black", linewidth=0.8, linestyle=":")
    axes.annotate("a session's most", (0.31, 10.6), fontsize=8)
    spreads = sorted((100 * spread_of_pairs(data, seed), data.name) for data in sets)
    for place, (sd, name) in enumerate(spreads):
        axes.axvline(sd, color="grey", linewidth=0.6)
        side = "left" if place % 2 else "right"
        axes.annotate(name, (sd, 2.1), rotation=90, fontsize=8, ha=side, va="bottom")
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="standard deviation of a pair, %",
        ylabel="pairs that find it 4 times in 5",
        ylim=(2, _MOST),
    )
    axes.legend()
    figure.savefig(path, dpi=120)
