"""Which rule reproduces the columns of a report's tables from its logs, and how well."""

from __future__ import annotations

import itertools
import os
import statistics
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from pytest_dlperf.core.same import same_precision
from pytest_dlperf.logs import rules
from pytest_dlperf.logs.audit_table import Cell, cells_of
from pytest_dlperf.logs.naming import name_of
from pytest_dlperf.logs.summary import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_dlperf.logs.extract import LogResult

#: A cell is reproduced by a value that differs by less: a report rounds, and picks its window.
CLOSE: Final = 0.005
_LOSS: Final = "the last loss"
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
class Finding:
    """What the rule of its column gets for a cell; None where it gets nothing of its devices."""

    cell: Cell
    best: Found | None
    #: Where the column's rule does not reproduce it: another rule that does, or None.
    other: Found | None = None

    @property
    def difference(self) -> float | None:
        """How far the value is from the cell, as a share of it."""
        return None if self.best is None else _distance(self.best, self.cell)

    @property
    def is_reproduced(self) -> bool:
        """Whether the rule of its column gets it."""
        return self.difference is not None and abs(self.difference) < CLOSE


@dataclass(frozen=True, kw_only=True, slots=True)
class _Family:
    """Logs that differ by devices and run alone."""

    name: str
    batch_size_per_device: int | None
    precision: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Group:
    """The runs of one family on as many devices, each with what every base rule gets."""

    family: _Family
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
        batch = self.family.batch_size_per_device
        whole = None if batch is None or self.devices is None else batch * self.devices
        precision = self.family.precision
        return (
            (cell.devices is None or self.devices is None or cell.devices == self.devices)
            and (cell.batch_size is None or batch is None or cell.batch_size in {batch, whole})
            and (
                cell.precision is None
                or precision is None
                or same_precision(cell.precision, precision)
            )
        )


def audit(markdown: str, results: Sequence[LogResult], skip: int = 50) -> list[Finding]:
    """Return, for every number of the tables, what the rule of its column gets from the logs.

    A column has one rule: the one that reproduces most of its cells, summaries over runs before
    single runs, else the one that comes closest. Only logs that nothing around a cell speaks
    against are looked at.
    """
    groups = _groups(results, skip)
    rule_list = _rules(groups)
    columns: defaultdict[tuple[int, int], list[Cell]] = defaultdict(list)
    cells = list(cells_of(markdown))
    for cell in cells:
        columns[cell.table, cell.at].append(cell)
    found = {
        cell: finding
        for column in columns.values()
        for cell, finding in zip(column, _audit_column(column, groups, rule_list), strict=True)
    }
    return [found[cell] for cell in cells]


def _distance(found: Found, cell: Cell) -> float:
    return found.value / cell.value - 1


def _groups(results: Sequence[LogResult], skip: int) -> list[_Group]:
    root = os.path.commonpath([PurePath(r.path).parent for r in results]) if results else ""
    found: defaultdict[tuple[_Family, int | None], list[LogResult]] = defaultdict(list)
    for result in results:
        found[_family(result, root), result.world_size].append(result)
    groups = []
    for (family, devices), logs in found.items():
        runs = []
        for number, result in enumerate(logs, 1):
            place = Place.of(result.path)
            values = _values(result, skip)
            if values:
                runs.append((str(place.run if place else number), result.path, values))
        if runs:
            groups.append(_Group(family=family, devices=devices, runs=tuple(runs)))
    return groups


def _family(result: LogResult, root: str) -> _Family:
    place = Place.of(result.path)
    if place is None:
        name = name_of(result.path, root)
    else:
        name = f"{PurePath(result.path).parent.parent}/{place.model}"
    return _Family(
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
        if result.stretches is None:
            continue
        rate = rules.named(name)(result.stretches, skip, until).throughput
        if rate is not None:
            values[f"{name}, steps {skip} to {until}"] = rate
    if result.whole_run is not None:
        values["the program's own mean of the whole run"] = result.whole_run
    if result.world_size and result.world_size > 1:
        each = {f"{rule}, a device": rate / result.world_size for rule, rate in values.items()}
        values |= each
    if result.loss_last is not None:
        values[_LOSS] = result.loss_last
    return values


def _rules(groups: Iterable[_Group]) -> list[Rule]:
    """Return every rule that gets something; summaries first."""
    runs = [run for group in groups for run in group.runs]
    bases = dict.fromkeys(base for _, _, values in runs for base in values)
    numbers = dict.fromkeys(number for number, _, _ in runs)
    return [Rule(base=base, over=over) for over in (*_SUMMARIES, *numbers) for base in bases]


def _audit_column(
    cells: Sequence[Cell], groups: Sequence[_Group], rule_list: Sequence[Rule]
) -> list[Finding]:
    """Return the findings of the cells of one column, in their order."""
    kind = cells[0].kind
    fit = [rule for rule in rule_list if (rule.base == _LOSS) == (kind == "loss")]
    tries = [
        (rule, found)
        for rule in fit
        for found in _assignments(cells, groups, rule)
        if any(one is not None for one in found)
    ]
    best = min(tries, key=lambda one: _rank(one[0], one[1], cells), default=None)
    if best is None:
        return [Finding(cell=cell, best=None) for cell in cells]
    findings = [Finding(cell=c, best=f) for c, f in zip(cells, best[1], strict=True)]
    return [
        one if one.is_reproduced else replace(one, other=_other(one.cell, groups, fit))
        for one in findings
    ]


def _rank(
    rule: Rule, found: Sequence[Found | None], cells: Sequence[Cell]
) -> tuple[int, bool, float]:
    """Return what makes a rule better for a column, smallest first."""
    far = [abs(_distance(f, c)) for f, c in zip(found, cells, strict=True) if f is not None]
    hits = [one for one in far if one < CLOSE]
    # Where it gets some, how well; else what it does not get counts as wholly wrong.
    return -len(hits), not rule.is_summary, sum(hits or far) + (not hits) * (len(cells) - len(far))


def _assignments(
    cells: Sequence[Cell], groups: Sequence[_Group], rule: Rule
) -> Iterator[list[Found | None]]:
    """Yield what a rule gets for the cells: of one family, where their devices tell them apart."""
    told = [cell.devices for cell in cells]
    if None not in told and len(set(told)) == len(told):
        for family in dict.fromkeys(group.family for group in groups):
            mine = [group for group in groups if group.family == family]
            yield [next(iter(_candidates(cell, mine, groups, rule)), None) for cell in cells]
        return
    yield _one_each(cells, groups, rule)


def _one_each(cells: Sequence[Cell], groups: Sequence[_Group], rule: Rule) -> list[Found | None]:
    """Return the closest values, each cell by logs of its own."""
    pairs = sorted(
        (
            (abs(_distance(found, cell)), index, found)
            for index, cell in enumerate(cells)
            for found in _candidates(cell, _named_in(cell, groups), groups, rule)
        ),
        key=lambda pair: pair[:2],
    )
    chosen: dict[int, Found] = {}
    taken: set[str] = set()
    for _, index, found in pairs:
        if index not in chosen and found.logs not in taken:
            chosen[index] = found
            taken.add(found.logs)
    return [chosen.get(index) for index in range(len(cells))]


def _named_in(cell: Cell, groups: Sequence[_Group]) -> Sequence[_Group]:
    """Return the groups whose name stands in the cell's row or column; all where none does."""
    words = f"{cell.row} {cell.column}".lower()
    named = [g for g in groups if (name := PurePath(g.family.name).name.lower()) and name in words]
    return named or groups


def _candidates(
    cell: Cell, mine: Iterable[_Group], groups: Iterable[_Group], rule: Rule
) -> Iterator[Found]:
    """Yield what a rule gets from the groups that may be of a cell."""
    for group in mine:
        if not group.may_be_of(cell):
            continue
        found = group.get(rule)
        if found is None:
            continue
        if cell.kind != "speedup":
            yield found
            continue
        alone = next((g for g in groups if g.family == group.family and g.devices == 1), None)
        one = None if alone is None else alone.get(rule)
        if one is not None:
            words = f"{found.rule}, over that of one device"
            yield replace(found, value=found.value / one.value, rule=words)


def _other(cell: Cell, groups: Sequence[_Group], fit: Sequence[Rule]) -> Found | None:
    """Return the closest value of any rule that reproduces a cell, or None."""
    near = [
        found
        for rule in fit
        for found in _candidates(cell, _named_in(cell, groups), groups, rule)
        if abs(_distance(found, cell)) < CLOSE
    ]
    return min(near, key=lambda found: abs(_distance(found, cell)), default=None)
