"""``dlperf audit TABLE LOG…``: which rule gives the numbers of a report."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_dlperf.cli import extract as extract_command
from pytest_dlperf.core.errors import UsageError
from pytest_dlperf.report import figures

if TYPE_CHECKING:
    from pytest_dlperf.cli.source_reports.audit_fit import Finding


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the parser of ``dlperf``."""
    audit = commands.add_parser(
        "audit",
        help="which rule gets the numbers of a report's table from its logs",
        description="TABLE is a Markdown file; every number in its tables is looked for.",
    )
    audit.add_argument("table", type=Path, metavar="TABLE")
    extract_command.add_logs(audit)
    extract_command.add_reading(audit)
    audit.add_argument("--json", action="store_true", help="JSON alone on standard output")
    audit.set_defaults(run=_audit)


def _audit(arguments: argparse.Namespace) -> int:
    from pytest_dlperf.cli.source_reports.audit_fit import audit
    from pytest_dlperf.measure.logs.extract import extract

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
        values = {"format": 1, "cells": [_to_json(finding) for finding in findings]}
        sys.stdout.write(json.dumps(values, indent=1, sort_keys=True, allow_nan=False) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(findings)) + "\n")
    return 0 if all(finding.is_reproduced for finding in findings) else 1


def _to_json(finding: Finding) -> dict[str, Any]:
    best, other = finding.best, finding.other
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
        if other is None
        else {"rule": other.rule, "logs": other.logs, "found": other.value},
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
    others = [f for f in findings if not f.is_reproduced and f.other is not None]
    if others:
        lines += ["", "another rule than that of their column gets these, which may be chance:"]
    for finding in others:
        assert finding.other is not None
        lines.append(
            f"{_name(finding)}: {finding.other.rule} ({figures.rate(finding.other.value)}) from "
            f"{finding.other.logs}; {_near(finding)}"
        )
    missing = [f for f in findings if not f.is_reproduced and f.other is None]
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
