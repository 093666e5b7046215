"""The numbers that each rule takes from a report's logs: by model, devices, and runs."""

from __future__ import annotations

import itertools
import os
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from pytest_dlperf.cli.source_reports.audit_table import Cell
from pytest_dlperf.core.quantity import same_precision
from pytest_dlperf.measure.logs import rules
from pytest_dlperf.measure.logs.extract import LogResult
from pytest_dlperf.measure.logs.path_words import Place, name_of

#: The rule of columns of losses, and of no others.
LOSS: Final = "the last loss"
_SUMMARIES: Final = ("median", "mean")


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """How a column was made: a rate of each log, and which of several runs, or what of them."""

    base: str
    #: ``median``, ``mean``, or the number of a run.
    over: str

    @property
    def is_summary(self) -> bool:
        """Whether it takes all the runs of a layout."""
        return self.over in _SUMMARIES


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A value that a rule gets from logs."""

    value: float
    rule: str
    logs: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """Logs that differ by devices and run alone."""

    name: str
    batch_size_per_device: int | None
    precision: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The runs of one training on as many devices, each with what every base rule gets."""

    training: Training
    devices: int | None
    #: Number of the run, its path, its values.
    runs: tuple[tuple[str, str, Mapping[str, float]], ...]

    def get(self, rule: Rule) -> Found | None:
        """Return what a rule gets; None where a run has no such value."""
        chosen = [run for run in self.runs if rule.is_summary or run[0] == rule.over]
        if not chosen or any(rule.base not in values for _, _, values in chosen):
            return None
        rates = [values[rule.base] for _, _, values in chosen]
        value = statistics.fmean(rates) if rule.over == "mean" else statistics.median(rates)
        if len(self.runs) == 1:
            return Found(value=value, rule=rule.base, logs=self.runs[0][1])
        if not rule.is_summary:
            return Found(value=value, rule=f"{rule.base} of run {rule.over}", logs=chosen[0][1])
        logs = f"{len(chosen)} logs like {chosen[0][1]}"
        return Found(value=value, rule=f"{rule.over} over runs of {rule.base}", logs=logs)

    def may_be_of(self, cell: Cell) -> bool:
        """Whether nothing around a cell speaks against it."""
        batch = self.training.batch_size_per_device
        whole = None if batch is None or self.devices is None else batch * self.devices
        precision = self.training.precision
        return (
            (cell.devices is None or self.devices is None or cell.devices == self.devices)
            and (cell.batch_size is None or batch is None or cell.batch_size in {batch, whole})
            and (
                cell.precision is None
                or precision is None
                or same_precision(cell.precision, precision)
            )
        )


def groups_of(results: Sequence[LogResult], skip: int) -> list[Group]:
    """Return the logs that give a number, the runs of one training together."""
    folders = [PurePath(os.path.abspath(result.path)).parent for result in results]
    root = os.path.commonpath(folders) if folders else ""
    found: defaultdict[tuple[Training, int | None], list[LogResult]] = defaultdict(list)
    for result in results:
        found[_training(result, root), result.world_size].append(result)
    groups = []
    for (training, devices), logs in found.items():
        runs = []
        for number, result in enumerate(logs, 1):
            place = Place.of(result.path)
            values = _values(result, skip)
            if values:
                runs.append((str(place.run if place else number), result.path, values))
        if runs:
            groups.append(Group(training=training, devices=devices, runs=tuple(runs)))
    return groups


def _training(result: LogResult, root: str) -> Training:
    place = Place.of(result.path)
    if place is None:
        name = name_of(os.path.abspath(result.path), root)
    else:
        name = f"{PurePath(result.path).parent.parent}/{place.model}"
    return Training(
        name=name,
        batch_size_per_device=result.batch_size_per_device,
        precision=result.precision,
    )


def _values(result: LogResult, skip: int) -> dict[str, float]:
    """Return the rate by each rule, whole and of one device, and the last loss."""
    values: dict[str, float] = {}
    if result.estimates is not None and result.throughput is not None:
        values["time-weighted"] = result.estimates.time_weighted
        values["mean of rates"] = result.estimates.mean_of_rates
        values["median of rates"] = result.estimates.median_of_rates
    for name, until in itertools.product(("dlperf", "dlperf-time"), (150, 600)):
        if result.series is None:
            continue
        rate = rules.named(name)(result.series, skip, until).throughput
        if rate is not None:
            values[f"{name}, steps {skip} to {until}"] = rate
    if result.whole_run is not None:
        values["the program's own mean of the whole run"] = result.whole_run
    if result.world_size and result.world_size > 1:
        each = {f"{rule}, a device": rate / result.world_size for rule, rate in values.items()}
        values |= each
    if result.loss_last is not None:
        values[LOSS] = result.loss_last
    return values


def rules_of(groups: Iterable[Group]) -> list[Rule]:
    """Return every rule that gets something; summaries first."""
    runs = [run for group in groups for run in group.runs]
    bases = dict.fromkeys(base for _, _, values in runs for base in values)
    numbers = dict.fromkeys(number for number, _, _ in runs)
    return [Rule(base=base, over=over) for over in (*_SUMMARIES, *numbers) for base in bases]
