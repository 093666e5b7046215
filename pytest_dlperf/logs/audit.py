"""Which rule reproduces the cells of a report's table from its logs, and how well."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pytest_dlperf.logs import rules
from pytest_dlperf.logs.summary import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_dlperf.logs.extract import LogResult

#: Model, batch size per device, precision, devices.
Key = tuple[str, int, str, "int | None"]
#: A cell is reproduced by a value that differs by less: a report rounds, and picks its window.
CLOSE: Final = 0.005
_NUMBER: Final = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?")
_RULE_LINE: Final = re.compile(r"[\s|:-]+")
#: How tables name devices: ``8卡``, ``GPU=8,BS=2``, ``1n8g``, ``8 GPUs``, or a bare number.
_DEVICES: Final = re.compile(
    r"(?:GPU\s*=\s*|^\s*)(\d+)(?:\s*(?:卡|GPUs?|cards?|devices?))?\b", re.IGNORECASE
)
_SPEEDUP: Final = re.compile(r"speed-?up|加速", re.IGNORECASE)
_LAYOUT: Final = re.compile(r"(\d+)n(\d+)[gc]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A number of a table, with the words of its row and column."""

    row: str
    column: str
    text: str
    value: float
    #: Devices of its row, where the row tells.
    devices: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A value that a rule gets from logs."""

    value: float
    rule: str
    logs: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The rule that comes closest to a cell; None where no log is of its devices."""

    cell: Cell
    best: Found | None

    @property
    def difference(self) -> float | None:
        """How far the best value is from the cell, as a share of it."""
        return None if self.best is None else self.best.value / self.cell.value - 1

    @property
    def is_reproduced(self) -> bool:
        """Whether the best value is close."""
        return self.difference is not None and abs(self.difference) < CLOSE


def cells_of(markdown: str) -> Iterator[Cell]:
    """Yield the numbers of every Markdown table in a text; empty cells and words are none."""
    header: list[str] = []
    for line in markdown.splitlines():
        if "|" not in line:
            header = []
            continue
        words = [word.strip().strip("*`") for word in line.strip().strip("|").split("|")]
        if not header:
            header = words
            continue
        if _RULE_LINE.fullmatch(line):
            continue
        yield from _cells_of_row(header, words)


def _cells_of_row(header: Sequence[str], words: Sequence[str]) -> Iterator[Cell]:
    devices = _devices(header, words)
    for column, text in list(zip(header, words, strict=False))[1:]:
        match = _NUMBER.fullmatch(text)
        if match is None or column.lower() in _COUNTS:
            continue
        value = float(text.replace(",", ""))
        if value > 0:
            yield Cell(row=words[0], column=column, text=text, value=value, devices=devices)


#: Columns that describe a row, and measure nothing.
_COUNTS: Final = frozenset({"gpu_num", "node_num", "batch_size", "gpus", "nodes"})


def _devices(header: Sequence[str], words: Sequence[str]) -> int | None:
    for column, word in zip(header, words, strict=False):
        if column.lower() in {"gpu_num", "gpus"} and word.isdecimal():
            return int(word)
    if layout := _LAYOUT.search(words[0]):
        return int(layout[1]) * int(layout[2])
    match = _DEVICES.search(words[0])
    return int(match[1]) if match else None


def values_of(results: Sequence[LogResult], skip: int) -> dict[int | None, list[Found]]:
    """Return what every rule gets from the logs, by devices; of several runs their medians too."""
    found: defaultdict[int | None, list[Found]] = defaultdict(list)
    groups: defaultdict[Key, list[tuple[str, Mapping[str, float]]]] = defaultdict(list)
    for result in results:
        values = _values(result, skip)
        for rule, value in values.items():
            found[result.world_size].append(Found(value=value, rule=rule, logs=result.path))
        place = Place.of(result.path)
        if place is not None:
            key = (place.model, place.batch_size_per_device, place.precision, result.world_size)
            groups[key].append((result.path, values))
    for key, runs in groups.items():
        _add_summaries(found, key[-1], runs)
    return dict(found)


def _values(result: LogResult, skip: int) -> dict[str, float]:
    """Return the rate by each rule, whole and of one device."""
    values: dict[str, float] = {}
    if result.estimates is not None and result.throughput is not None:
        values["time-weighted"] = result.estimates.time_weighted
        values["mean of rates"] = result.estimates.mean_of_rates
        values["median of rates"] = result.estimates.median_of_rates
    for name in ("dlperf", "dlperf-time"):
        for until in (150, 600):
            if result.stretches is None:
                continue
            rate = rules.named(name)(result.stretches, skip, until).throughput
            if rate is not None:
                values[f"{name}, steps {skip} to {until}"] = rate
    if result.whole_run is not None:
        values["the program's own mean of the whole run"] = result.whole_run
    if result.loss_last is not None:
        values["the last loss"] = result.loss_last
    each = (
        {}
        if not result.world_size or result.world_size == 1
        else {f"{rule}, a device": value / result.world_size for rule, value in values.items()}
    )
    return values | each


def _add_summaries(
    found: dict[int | None, list[Found]],
    devices: int | None,
    runs: Sequence[tuple[str, Mapping[str, float]]],
) -> None:
    if len(runs) < 2:
        return
    for rule in set.intersection(*(set(values) for _, values in runs)):
        rates = [values[rule] for _, values in runs]
        logs = f"{len(runs)} logs like {runs[0][0]}"
        found[devices].append(
            Found(value=statistics.median(rates), rule=f"median over runs of {rule}", logs=logs)
        )
        found[devices].append(
            Found(value=statistics.fmean(rates), rule=f"mean over runs of {rule}", logs=logs)
        )


def _speedups(rates: Mapping[int | None, Sequence[Found]]) -> dict[int | None, list[Found]]:
    """Return every rule's rate over what the same rule gets of one device, the median of logs."""
    alone: defaultdict[str, list[float]] = defaultdict(list)
    for one in rates.get(1, ()):
        alone[one.rule].append(one.value)
    return {
        devices: [
            Found(
                value=one.value / statistics.median(alone[one.rule]),
                rule=f"{one.rule}, over that of one device",
                logs=one.logs,
            )
            for one in several
            if one.rule in alone
        ]
        for devices, several in rates.items()
    }


def audit(markdown: str, results: Sequence[LogResult], skip: int = 50) -> list[Finding]:
    """Return, for every number of the tables, the rule and the logs that come closest to it.

    Only logs of the row's devices are looked at, where the row tells them. In a column of speedups
    it is a rule's rate over that of one device.
    """
    rates = values_of(results, skip)
    speedups = _speedups(rates)
    findings = []
    for cell in cells_of(markdown):
        values = speedups if _SPEEDUP.search(cell.column) else rates
        candidates = [
            one
            for devices, several in values.items()
            if cell.devices is None or devices is None or devices == cell.devices
            for one in several
        ]
        best = min(candidates, key=lambda one: abs(one.value / cell.value - 1), default=None)
        findings.append(Finding(cell=cell, best=best))
    return findings
