"""What changed where a case ran since what it was judged against."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_dlperf.core.baseline import level_of
from pytest_dlperf.report import figures
from pytest_dlperf.report.page.markup import Html, joined, name, paragraph
from pytest_dlperf.report.page.table import Column, TableCell, TableRow, cell, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_dlperf.core.outcome import Outcome


class Change(NamedTuple):
    """One thing that is not as it was; None for what was not recorded."""

    name: str
    before: str | None
    now: str | None


class Changes(NamedTuple):
    """What differs, software first, and since when."""

    since: str
    changes: tuple[Change, ...]


def environment_changes(outcome: Outcome) -> Changes | None:
    """Return what changed since the baseline's last session, or against the other arm.

    None where nothing was judged against, or where it was recorded on neither side.
    """
    environment = outcome.environment
    if environment is None:
        return None
    if outcome.against is not None:
        if not outcome.against.software:
            return None
        found = [
            *_commits(outcome.against.commit, outcome.commit),
            *_differences(outcome.against.software, environment.software),
        ]
        return Changes(f"against {outcome.against.name}", tuple(found))
    level = level_of(outcome.baseline_sessions)
    if not level or not (level[-1].software or level[-1].machine):
        return None
    last = level[-1]
    found = [
        *_differences(last.software, environment.software),
        *_commits(last.commit, outcome.commit),
        *_differences(last.machine, environment.machine),
        *_differences({"node": last.node}, {"node": environment.node}),
    ]
    return Changes(f"since the baseline's last session, {last.time}", tuple(found))


def changes_section(outcome: Outcome) -> Html:
    """Return the table of what changed, or that nothing did; nothing where none can tell."""
    found = environment_changes(outcome)
    if found is None:
        return Html("")
    heading = "<h3>What changed</h3>"
    if not found.changes:
        told = f"No recorded software and no part of the machine changed {found.since}."
        return joined([heading, paragraph(told, kind="quiet")])
    rows = [
        TableRow(cells=(cell(change.name), _value(change.before), _value(change.now)))
        for change in found.changes
    ]
    columns = [Column(heading="what"), Column(heading="before"), Column(heading="now")]
    return joined([heading, table(f"Differences {found.since}", columns, rows)])


def _value(value: str | None) -> TableCell:
    return TableCell(shown=name(figures.ABSENT if value is None else value))


def _differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[Change]:
    names = [*now, *(one for one in before if one not in now)]
    return [
        Change(one, before.get(one), now.get(one))
        for one in names
        if before.get(one) != now.get(one)
    ]


def _commits(before: str, now: str) -> list[Change]:
    return _differences({"commit": before} if before else {}, {"commit": now} if now else {})
