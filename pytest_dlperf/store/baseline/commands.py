"""``dlperf baselines list | show | accept | prune``, without the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from pytest_dlperf.core.baseline import Baseline, Source
from pytest_dlperf.core.codec import encode
from pytest_dlperf.core.errors import DlperfError, UsageError
from pytest_dlperf.core.outcome import Outcome
from pytest_dlperf.store.baseline import describe, file_format, update
from pytest_dlperf.store.baseline.describe import published_text, state_text
from pytest_dlperf.store.baseline.key import PUBLISHED
from pytest_dlperf.store.baseline.store import BaselineStore
from pytest_dlperf.store.baseline.update import Change

__all__ = [
    "NUMBER_COLUMNS",
    "BaselineRow",
    "Change",
    "accept",
    "changes_to_json",
    "list_cells",
    "list_rows",
    "prune",
    "published_text",
    "render_show",
    "show",
    "state_text",
]
#: Version of the JSON of ``show`` and ``accept``. 1: the first.
_JSON_FORMAT: Final = 1
_HEADINGS: Final = (
    "case",
    "machine class",
    "throughput",
    "runs",
    "accuracy",
    "time to train",
    "source",
)
#: Of the cells of ``list_cells``.
NUMBER_COLUMNS: Final = tuple(map(_HEADINGS.index, ("throughput", "accuracy", "time to train")))


@dataclass(frozen=True, kw_only=True, slots=True)
class BaselineRow:
    """What ``dlperf baselines list`` shows of one baseline; what is unknown is None."""

    case_id: str
    suite: str
    machine_class: str
    #: Global, in ``unit`` per second: the median of the last session.
    throughput: float
    unit: str
    speedup: float | None
    #: Of the last session.
    runs: int
    #: Of the level.
    sessions: int
    levels_replaced: int
    #: When the last session was measured.
    time: str | None
    source: Source
    accuracy_percent: float | None
    time_to_train_s: float | None


def list_rows(store: BaselineStore) -> list[BaselineRow]:
    """Return every stored baseline as a row."""
    return [_row(entry.baseline) for entry in store.all()]


def _row(baseline: Baseline) -> BaselineRow:
    session = baseline.level[-1]
    return BaselineRow(
        case_id=baseline.case_id,
        suite=baseline.suite,
        machine_class=baseline.machine_class,
        throughput=describe.level(baseline),
        unit=baseline.unit,
        speedup=session.speedup,
        runs=len(session.runs),
        sessions=len(baseline.level),
        levels_replaced=len(baseline.history),
        time=session.time or None,
        source=baseline.source,
        accuracy_percent=_number(baseline.facts, "accuracy_percent"),
        time_to_train_s=_number(baseline.facts, "time_to_train_s"),
    )


def _number(facts: Mapping[str, str | float], name: str) -> float | None:
    value = facts.get(name)
    return None if isinstance(value, str) else value


def list_cells(rows: Sequence[BaselineRow]) -> list[tuple[str, ...]]:
    """Return the cells of a table, its headings first."""
    return [_HEADINGS, *map(_cells, rows)]


def _cells(row: BaselineRow) -> tuple[str, ...]:
    published = row.source.kind == PUBLISHED
    form = describe.exact if published else describe.figure
    runs = describe.counted(row.runs, "run")
    accuracy, seconds = row.accuracy_percent, row.time_to_train_s
    return (
        row.case_id,
        row.machine_class,
        f"{form(row.throughput)} {row.unit}/s",
        runs if row.sessions == 1 else f"{runs}, {row.sessions} sessions",
        describe.ABSENT if accuracy is None else f"{_two_decimals(accuracy)} %",
        describe.ABSENT if seconds is None else f"{describe.exact(seconds)} s",
        f"published: {row.source.document}; {row.source.table}"
        if published
        else f"measured {(row.time or '')[:10]}",
    )


def _two_decimals(value: float) -> str:
    """Return an accuracy with two decimals at least, as the reports print it: ``71.00``."""
    text = describe.exact(value)
    return f"{value:.2f}" if len(text.partition(".")[2]) < 2 else text


def show(store: BaselineStore, pattern: str) -> dict[str, Any]:
    """Return whole the baselines whose case id is ``pattern``, or fits it (``*``, ``?``).

    Raises ``UsageError`` if none does.
    """
    stored = [e for e in store.all() if fnmatchcase(e.baseline.case_id, pattern)]
    if not stored:
        raise UsageError(
            f"{store.root}: no baseline of {pattern!r}; dlperf baselines list shows what is stored"
        )
    entries = [{"path": str(e.path), **encode(e.baseline)} for e in stored]
    return {"format": _JSON_FORMAT, "baselines": entries}


def render_show(document: dict[str, Any]) -> str:
    """Return what ``show`` found, each under its path and as its file has it."""
    parts = []
    for entry in document["baselines"]:
        values = {key: value for key, value in entry.items() if key != "path"}
        parts.append(f"{entry['path']}\n{file_format.json_text(values)}")
    return "\n\n".join(parts)


def accept(
    store: BaselineStore,
    outcomes: Iterable[Outcome],
    *,
    pattern: str | None,
    reason: str,
    judge_again: update.JudgeAgain,
    anchor: bool = False,
) -> list[Change]:
    """Store the ``outcomes`` whose case id holds or fits ``pattern``, or all; return what changed.

    ``anchor``: later sessions are held to the level of these, however slowly they leave it.

    A refusal stops none of the others: it is a change that is ``refused``, with the sentence.
    """
    return [
        _accept(store, outcome, reason, judge_again, anchor)
        for outcome in outcomes
        if pattern is None or pattern in outcome.case.id or fnmatchcase(outcome.case.id, pattern)
    ]


def _accept(
    store: BaselineStore,
    outcome: Outcome,
    reason: str,
    judge_again: update.JudgeAgain,
    anchor: bool,
) -> Change:
    try:
        return update.write(store, outcome, reason=reason, judge_again=judge_again, anchor=anchor)
    except DlperfError as error:
        return Change(case_id=outcome.case.id, what="refused", text=f"refused   {error}")


def changes_to_json(changes: Iterable[Change]) -> dict[str, Any]:
    """Return ``changes`` in plain JSON types."""
    return {"format": _JSON_FORMAT, "changes": [encode(change) for change in changes]}


def prune(store: BaselineStore, known_case_ids: set[str], *, dry_run: bool) -> list[Path]:
    """Remove the measured baselines of cases that are not known; return their paths.

    Published numbers stay. With ``dry_run`` nothing is removed.
    """
    gone = [
        entry
        for entry in store.all()
        if entry.baseline.source.kind != PUBLISHED and entry.baseline.case_id not in known_case_ids
    ]
    if not dry_run:
        for entry in gone:
            baseline = entry.baseline
            store.delete(baseline.machine_class, baseline.suite, baseline.case_id)
    return [entry.path for entry in gone]
