"""``dlperf audit TABLE LOG…``: which rule gives the numbers of a report."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Final

from pytest_dlperf.cli import extract as extract_command
from pytest_dlperf.cli.parser import add_json
from pytest_dlperf.cli.source_reports.audit_rules import (
    LOSS,
    Cell,
    ColumnRule,
    Found,
    Group,
    cells_of,
    groups_of,
    rules_of,
)
from pytest_dlperf.cli.stdout import say, say_json
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.measure.logs.extract import LogResult, extract
from pytest_dlperf.report import figures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = "TABLE is a Markdown file; every number in its tables is looked for."
    parser.add_argument("table", type=Path, metavar="TABLE", help="the report, a Markdown file")
    extract_command.add_logs(parser)
    extract_command.add_reading(parser)
    add_json(parser)
    parser.set_defaults(run=_audit)


def _audit(arguments: argparse.Namespace) -> int:
    try:
        markdown = arguments.table.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{arguments.table}: {error}") from error
    options = extract_command.parse_options(arguments)
    results = [extract(path, options) for path in extract_command.paths(arguments)]
    findings = audit(markdown, results, arguments.skip)
    if not findings:
        raise UsageError(f"{arguments.table}: no Markdown table with a number in it")
    if arguments.json:
        say_json({"format": 1, "cells": [_to_json(finding) for finding in findings]})
    else:
        say("\n".join(_lines(findings)))
    return 0 if all(finding.is_reproduced for finding in findings) else 1


def _to_json(finding: Finding) -> dict[str, Any]:
    best, other_rule = finding.best, finding.other_rule
    return {
        "table": finding.cell.table,
        "row": finding.cell.row,
        "column": finding.cell.column,
        "value": finding.cell.value,
        "devices": finding.cell.devices,
        "reproduced": finding.is_reproduced,
        "rule": best.rule if best else None,
        "logs": best.logs if best else None,
        "found": best.value if best else None,
        "difference": finding.difference,
        "other": None
        if other_rule is None
        else {"rule": other_rule.rule, "logs": other_rule.logs, "found": other_rule.value},
    }


def _lines(findings: list[Finding]) -> list[str]:
    lines = []
    for finding in findings:
        if finding.is_reproduced and finding.best is not None:
            lines.append(
                f"{_name(finding)}: {finding.best.rule} "
                f"({figures.rate(finding.best.value)}, {100 * (finding.difference or 0):+.2f} %) "
                f"from {finding.best.logs}"
            )
    by_other_rules = [f for f in findings if not f.is_reproduced and f.other_rule is not None]
    if by_other_rules:
        lines += ["", "another rule than that of their column gets these, which may be chance:"]
    for finding in by_other_rules:
        value = finding.other_rule
        assert value is not None
        lines.append(
            f"{_name(finding)}: {value.rule} ({figures.rate(value.value)}) from {value.logs}; "
            f"{_near(finding)}"
        )
    missing = [f for f in findings if not f.is_reproduced and f.other_rule is None]
    if missing:
        lines += ["", "no rule gets these from the logs:"]
    lines += [f"{_name(finding)}: {_near(finding)}" for finding in missing]
    return lines


def _near(finding: Finding) -> str:
    if finding.best is None:
        return "no log of its devices, batch size and precision"
    return (
        f"the column's rule is {finding.best.rule} of {finding.best.logs}, "
        f"{100 * (finding.difference or 0):+.1f} %"
    )


def _name(finding: Finding) -> str:
    return f"{finding.cell.row} / {finding.cell.column} = {finding.cell.text}"


#: A cell is reproduced by a value that differs by less: a report rounds, and picks its window.
CLOSE: Final = 0.005


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What the rule of its column gets for a cell; None where it gets nothing of its devices."""

    cell: Cell
    best: Found | None
    #: Where the column's rule does not reproduce it: another rule that does, or None.
    other_rule: Found | None = None

    @property
    def difference(self) -> float | None:
        """How far the value is from the cell, as a share of it."""
        return None if self.best is None else _distance(self.best, self.cell)

    @property
    def is_reproduced(self) -> bool:
        """Whether the rule of its column gets it."""
        return self.difference is not None and abs(self.difference) < CLOSE


def audit(markdown: str, results: Sequence[LogResult], skip: int = 50) -> list[Finding]:
    """Return, for every number of the tables, what the rule of its column gets from the logs.

    A column has one rule: the one that reproduces most of its cells, summaries over runs before
    single runs, else the one that comes closest. Only logs that nothing around a cell speaks
    against are looked at.
    """
    groups = groups_of(results, skip)
    rule_list = rules_of(groups)
    columns: defaultdict[tuple[int, int], list[Cell]] = defaultdict(list)
    cells = list(cells_of(markdown))
    for cell in cells:
        columns[cell.table, cell.column_number].append(cell)
    findings = {
        cell: finding
        for column in columns.values()
        for cell, finding in zip(column, _audit_column(column, groups, rule_list), strict=True)
    }
    return [findings[cell] for cell in cells]


def _distance(value: Found, cell: Cell) -> float:
    return value.value / cell.value - 1


def _audit_column(
    cells: Sequence[Cell], groups: Sequence[Group], rule_list: Sequence[ColumnRule]
) -> list[Finding]:
    """Return the findings of the cells of one column, in their order."""
    kind = cells[0].kind
    fit = [rule for rule in rule_list if (rule.base == LOSS) == (kind == "loss")]
    tries = [
        (rule, values)
        for rule in fit
        for values in _assignments(cells, groups, rule)
        if any(value is not None for value in values)
    ]
    best = min(tries, key=lambda attempt: _rank(attempt[0], attempt[1], cells), default=None)
    if best is None:
        return [Finding(cell=cell, best=None) for cell in cells]
    findings = [Finding(cell=c, best=f) for c, f in zip(cells, best[1], strict=True)]
    return [
        finding
        if finding.is_reproduced
        else replace(finding, other_rule=_closest_value(finding.cell, groups, fit))
        for finding in findings
    ]


def _rank(
    rule: ColumnRule, values: Sequence[Found | None], cells: Sequence[Cell]
) -> tuple[int, bool, float]:
    """Return what makes a rule better for a column, smallest first."""
    far = [abs(_distance(f, c)) for f, c in zip(values, cells, strict=True) if f is not None]
    hits = [distance for distance in far if distance < CLOSE]
    # Where it gets some, how well; else what it does not get counts as wholly wrong.
    return -len(hits), not rule.is_summary, sum(hits or far) + (not hits) * (len(cells) - len(far))


def _assignments(
    cells: Sequence[Cell], groups: Sequence[Group], rule: ColumnRule
) -> Iterator[list[Found | None]]:
    """Yield what a rule gets for the cells: of one training, where devices tell them apart."""
    devices = [cell.devices for cell in cells]
    if None not in devices and len(set(devices)) == len(devices):
        for training in dict.fromkeys(group.training for group in groups):
            of_training = [group for group in groups if group.training == training]
            yield [
                next(iter(_candidates(cell, of_training, groups, rule)), None) for cell in cells
            ]
        return
    yield _one_each(cells, groups, rule)


def _one_each(
    cells: Sequence[Cell], groups: Sequence[Group], rule: ColumnRule
) -> list[Found | None]:
    """Return the closest values, each cell by logs of its own."""
    pairs = sorted(
        (
            (abs(_distance(value, cell)), index, value)
            for index, cell in enumerate(cells)
            for value in _candidates(cell, _named_in(cell, groups), groups, rule)
        ),
        key=lambda pair: pair[:2],
    )
    chosen: dict[int, Found] = {}
    taken: set[str] = set()
    for _, index, value in pairs:
        if index not in chosen and value.logs not in taken:
            chosen[index] = value
            taken.add(value.logs)
    return [chosen.get(index) for index in range(len(cells))]


def _named_in(cell: Cell, groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups that the cell's row or column names; all where none does."""
    words = f"{cell.row} {cell.column}".lower()
    named = [
        g for g in groups if (name := PurePath(g.training.name).name.lower()) and name in words
    ]
    return named or groups


def _candidates(
    cell: Cell, named: Iterable[Group], groups: Iterable[Group], rule: ColumnRule
) -> Iterator[Found]:
    """Yield what a rule gets from the groups that may be of a cell."""
    for group in named:
        if not group.may_be_of(cell):
            continue
        value = group.get(rule)
        if value is None:
            continue
        if cell.kind != "speedup":
            yield value
            continue
        alone = next((g for g in groups if g.training == group.training and g.devices == 1), None)
        of_one_device = None if alone is None else alone.get(rule)
        if of_one_device is not None:
            words = f"{value.rule}, over that of one device"
            yield replace(value, value=value.value / of_one_device.value, rule=words)


def _closest_value(cell: Cell, groups: Sequence[Group], fit: Sequence[ColumnRule]) -> Found | None:
    """Return the closest value of any rule that reproduces a cell, or None."""
    near = [
        value
        for rule in fit
        for value in _candidates(cell, _named_in(cell, groups), groups, rule)
        if abs(_distance(value, cell)) < CLOSE
    ]
    return min(near, key=lambda value: abs(_distance(value, cell)), default=None)
