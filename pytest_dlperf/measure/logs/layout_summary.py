"""Summarise a folder of logs by model and layout, with speedups over one device."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_dlperf.core.run import Problem
from pytest_dlperf.measure.logs import problems
from pytest_dlperf.measure.logs.path_words import Place

if TYPE_CHECKING:
    from pytest_dlperf.measure.logs.extract import LogResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Rates by model and layout, with what is odd between layouts."""

    models: Mapping[str, Mapping[str, Mapping[str, Any]]]
    problems: tuple[Problem, ...]


def summarise(results: Sequence[LogResult]) -> Summary | None:
    """Return the summary of logs in folders named by layout; None if there are none."""
    cells: dict[tuple[str, int, str], dict[str, list[tuple[Place, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for result in results:
        place = Place.of(result.path)
        if place is not None and result.throughput is not None:
            key = (place.model, place.batch_size_per_device, place.precision)
            cells[key][place.layout].append((place, result.throughput))
    if not cells:
        return None
    names = _names(tuple(cells))
    models = {names[key]: _layouts(by_layout) for key, by_layout in cells.items()}
    odd = [
        problem
        for key, by_layout in cells.items()
        for problem in problems.implausible(names[key], _medians(by_layout))
    ]
    return Summary(models=models, problems=tuple(odd))


def _names(keys: Sequence[tuple[str, int, str]]) -> dict[tuple[str, int, str], str]:
    """Return the model's name for each key, with batch and precision where it is not enough."""
    counts: dict[str, int] = defaultdict(int)
    for model, _, _ in keys:
        counts[model] += 1
    return {key: key[0] if counts[key[0]] == 1 else f"{key[0]}_b{key[1]}_{key[2]}" for key in keys}


def _medians(
    by_layout: Mapping[str, Sequence[tuple[Place, float]]],
) -> dict[str, tuple[int, float]]:
    return {
        layout: (runs[0][0].world_size, statistics.median(rate for _, rate in runs))
        for layout, runs in by_layout.items()
    }


def _layouts(
    by_layout: Mapping[str, Sequence[tuple[Place, float]]],
) -> dict[str, dict[str, Any]]:
    medians = _medians(by_layout)
    # As the DLPerf reports: the speed of one device, rounded only in print.
    base = next((rate for world, rate in medians.values() if world == 1), None)
    return {
        layout: {
            "average_speed": round(statistics.fmean(rate for _, rate in runs), 2),
            "batch_size_per_device": runs[0][0].batch_size_per_device,
            "median_speed": round(medians[layout][1], 2),
            "speedup": None if base is None else round(medians[layout][1] / base, 2),
        }
        for layout, runs in sorted(by_layout.items())
    }
